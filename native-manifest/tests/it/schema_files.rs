//! The JSON Schema files say what the types say.

use std::fs;
use std::path::Path;

use boon::{Compiler, SchemaIndex, Schemas};
use native_manifest::proof::{Drafting, Evidence, MtpMode, Proof, RecordDigester, RuntimeIdentity};
use native_manifest::schema::{
    MANIFEST_FILE, PRECISION_SUMMARY_FILE, PUBLICATION_FILE, RELEASE_FILE,
};
use native_manifest::{
    ManifestError, ModelIdentity, NativeManifest, PrecisionOverrides, PrecisionSummary,
    Publication, RuntimeRelease, Sha256Digest,
};
use serde_json::{Value, json};

use crate::harness::Package;

/// Name of a schema, a file with every field set, and the type's reader.
struct Kind {
    name: &'static str,
    full: Value,
    parse: fn(&[u8]) -> Result<(), ManifestError>,
}

fn kinds() -> Vec<Kind> {
    let package = Package::new();
    let read = |file: &str| -> Value { serde_json::from_slice(&package.read(file)).unwrap() };
    let image = format!("registry.example/runtime@sha256:{}", "ab".repeat(32));
    let mut release = read(RELEASE_FILE);
    release["repository"] = "Owner/name".into();
    release["revision"] = "main".into();
    release["image"] = image.into();
    let mut manifest = read(MANIFEST_FILE);
    manifest["model"]["repository"] = "Owner/name".into();
    manifest["model"]["revision"] = "0123456789012345678901234567890123456789".into();
    manifest["model"]["files"] = manifest["files"].clone();
    manifest["producer"] = json!({"name": "x", "version": "1"});
    let overrides = json!({
        "format": "tt-native/1", "preset": "mixed",
        "overrides": [{"pattern": ".*", "dtype": "bfp8_b", "reason": "r"}],
    });
    let mut proof = serde_json::to_value(proof()).unwrap();
    proof["source"] = manifest["model"].clone();
    vec![
        Kind {
            name: "runtime-release",
            full: release,
            parse: |json| RuntimeRelease::parse(json).map(drop),
        },
        Kind {
            name: "release-manifest",
            full: read(PUBLICATION_FILE),
            parse: |json| Publication::parse(json).map(drop),
        },
        Kind {
            name: "native-manifest",
            full: manifest,
            parse: |json| NativeManifest::parse(json).map(drop),
        },
        Kind {
            name: "precision-summary",
            full: read(PRECISION_SUMMARY_FILE),
            parse: |json| PrecisionSummary::parse(json).map(drop),
        },
        Kind {
            name: "precision-overrides",
            full: overrides,
            parse: |json| PrecisionOverrides::parse(json).map(drop),
        },
        Kind {
            name: "proof",
            full: proof,
            parse: |json| Proof::parse("p", json).map(drop),
        },
    ]
}

fn proof() -> Proof {
    let mut record = RecordDigester::new("r", &[1], 2);
    record.row(&[0.0, 1.0]).unwrap();
    let evidence = Evidence {
        manifest_sha256: Sha256Digest::of(b""),
        mode: MtpMode::On,
        contract: "host/1".to_owned(),
        runtime: RuntimeIdentity {
            version: "0.1.0".to_owned(),
            commit: Some("0123456789012345678901234567890123456789".parse().unwrap()),
            isa: "avx2".to_owned(),
            threads: 1,
        },
        vocabulary: 2,
        records: vec![
            record
                .drafted(Drafting {
                    proposed: 2,
                    accepted: 1,
                })
                .finish(),
        ],
    };
    Proof::new(ModelIdentity::default(), &evidence.clone(), evidence).unwrap()
}

struct Judge {
    schemas: Schemas,
    index: Vec<(&'static str, SchemaIndex)>,
    texts: Vec<(String, Value)>,
}

impl Judge {
    fn new(names: &[&'static str]) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
        let mut compiler = Compiler::new();
        let mut texts = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let text: Value =
                serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
            let id = text["$id"].as_str().unwrap().to_owned();
            compiler.add_resource(&id, text.clone()).unwrap();
            texts.push((id, text));
        }
        assert_eq!(
            texts.len(),
            names.len() + 1,
            "one file a kind, and the common one"
        );
        let mut schemas = Schemas::new();
        let index = names.iter().map(|name| {
            (
                *name,
                compiler
                    .compile(&format!("urn:tt-native:1:{name}"), &mut schemas)
                    .unwrap(),
            )
        });
        let index = index.collect();
        Self {
            schemas,
            index,
            texts,
        }
    }

    fn accepts(&self, name: &str, value: &Value) -> bool {
        let (_, index) = self.index.iter().find(|(known, _)| *known == name).unwrap();
        self.schemas.validate(value, *index).is_ok()
    }

    /// The schema that `schema` refers to, if it does.
    fn resolved<'a>(&'a self, schema: &'a Value, root: &'a Value) -> (&'a Value, &'a Value) {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
            return (schema, root);
        };
        let (id, pointer) = reference.split_once('#').unwrap();
        let root = if id.is_empty() {
            root
        } else {
            &self.texts.iter().find(|(known, _)| known == id).unwrap().1
        };
        self.resolved(root.pointer(pointer).unwrap(), root)
    }
}

#[test]
fn what_the_types_write_the_schemas_accept() {
    let kinds = kinds();
    let judge = Judge::new(&kinds.iter().map(|kind| kind.name).collect::<Vec<_>>());
    for kind in &kinds {
        (kind.parse)(kind.full.to_string().as_bytes()).unwrap();
        assert!(judge.accepts(kind.name, &kind.full), "{}", kind.name);
    }
}

#[test]
fn types_and_schemas_have_the_same_fields() {
    let kinds = kinds();
    let judge = Judge::new(&kinds.iter().map(|kind| kind.name).collect::<Vec<_>>());
    for kind in &kinds {
        let root = &judge
            .texts
            .iter()
            .find(|(id, _)| id.ends_with(&format!(":{}", kind.name)))
            .unwrap()
            .1;
        same_fields(&judge, root, root, &kind.full, kind.name);
    }
}

fn same_fields(judge: &Judge, schema: &Value, root: &Value, value: &Value, at: &str) {
    let (schema, root) = judge.resolved(schema, root);
    match value {
        Value::Object(fields) => {
            let properties = schema["properties"]
                .as_object()
                .unwrap_or_else(|| panic!("{at}: no properties"));
            let mut described: Vec<_> = properties.keys().collect();
            let mut written: Vec<_> = fields.keys().collect();
            described.sort();
            written.sort();
            assert_eq!(described, written, "{at}");
            for (name, value) in fields {
                same_fields(
                    judge,
                    &properties[name],
                    root,
                    value,
                    &format!("{at}.{name}"),
                );
            }
        }
        Value::Array(items) => {
            for item in items {
                same_fields(judge, &schema["items"], root, item, &format!("{at}[]"));
            }
        }
        _ => {}
    }
}

#[test]
fn types_and_schemas_refuse_the_same_files() {
    let kinds = kinds();
    let judge = Judge::new(&kinds.iter().map(|kind| kind.name).collect::<Vec<_>>());
    let mut refused = 0;
    for kind in &kinds {
        for pointer in pointers(&kind.full) {
            for spoilt in spoil(&kind.full, &pointer) {
                let by_type = (kind.parse)(spoilt.to_string().as_bytes());
                // What one value alone does not show, a schema cannot say.
                if matches!(
                    by_type,
                    Err(ManifestError::Proof { .. } | ManifestError::Cycle { .. })
                ) {
                    continue;
                }
                let by_schema = judge.accepts(kind.name, &spoilt);
                assert_eq!(
                    by_type.is_ok(),
                    by_schema,
                    "{} {pointer}: {by_type:?}\n{spoilt}",
                    kind.name
                );
                refused += usize::from(!by_schema);
            }
        }
    }
    assert!(refused > 300, "{refused}");
}

/// A pointer to every value; of the items of an array the first stands for all.
fn pointers(value: &Value) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), value))
            .collect(),
        Value::Array(items) => items
            .first()
            .map(|item| ("0".to_owned(), item))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    };
    let below = inner.into_iter().flat_map(|(name, value)| {
        let own = format!("/{name}");
        let deeper = pointers(value)
            .into_iter()
            .map(move |pointer| format!("/{name}{pointer}"));
        std::iter::once(own).chain(deeper)
    });
    below.collect()
}

/// The file without the value at `pointer`, with an unknown neighbour, and with values of other types and forms.
fn spoil(full: &Value, pointer: &str) -> Vec<Value> {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let mut without = full.clone();
    match without.pointer_mut(parent).unwrap() {
        Value::Object(fields) => drop(fields.shift_remove(name)),
        Value::Array(items) => drop(items.remove(0)),
        _ => {}
    }
    let mut all = vec![without];
    if let Some(Value::Object(_)) = full.pointer(parent) {
        let mut neighbour = full.clone();
        neighbour.pointer_mut(parent).unwrap()["zz_unknown"] = json!({"x": [1]});
        all.push(neighbour);
    }
    // Text is not put where text of any kind may stand.
    for other in [
        json!(true),
        json!({}),
        json!(-1),
        json!("../\u{1}"),
        json!([{}]),
    ] {
        let mut changed = full.clone();
        let place = changed.pointer_mut(pointer).unwrap();
        if place.is_string() == other.is_string() && is_free_text(pointer)
            || place.is_number() && other.is_number() && pointer == "/norm_offset"
        {
            continue;
        }
        if other == json!({}) && place.is_object() {
            continue;
        }
        *place = other;
        all.push(changed);
    }
    all
}

fn is_free_text(pointer: &str) -> bool {
    let name = pointer.rsplit('/').next().unwrap_or_default();
    [
        "release",
        "architecture",
        "name",
        "version",
        "dtype",
        "preset",
        "pattern",
        "reason",
        "contract",
        "isa",
        "rounding",
        "verdict",
    ]
    .contains(&name)
        && !pointer.starts_with("/types")
        && !pointer.starts_with("/overrides/0/dtype")
        && pointer != "/tensors/0/dtype"
}
