//! Proof records: made, read, compared.

use native_manifest::proof::{
    Comparison, Drafting, Evidence, Incomparable, MtpMode, Proof, RecordDigester, RuntimeIdentity,
    Verdict,
};
use native_manifest::{ManifestError, ModelIdentity, Sha256Digest, to_json};

const VOCABULARY: usize = 5;

/// Logits of a row: every bit depends on record, position and token.
fn row(record: usize, position: usize) -> Vec<f32> {
    (0..VOCABULARY)
        .map(|token| (record * 100 + position * 10 + token) as f32 / 7.0)
        .collect()
}

fn evidence(mode: MtpMode, isa: &str, spoil: impl Fn(usize, usize, &mut Vec<f32>)) -> Evidence {
    let records = [3, 4].into_iter().enumerate().map(|(index, positions)| {
        let tokens: Vec<u32> = (0..).take(positions).collect();
        let mut record = RecordDigester::new(&format!("text {index}"), &tokens, VOCABULARY);
        for position in 0..positions {
            let mut row = row(index, position);
            spoil(index, position, &mut row);
            record.row(&row).unwrap();
        }
        match mode {
            MtpMode::Off => record.finish(),
            MtpMode::On => record
                .drafted(Drafting {
                    proposed: 3,
                    accepted: 2,
                })
                .finish(),
        }
    });
    Evidence {
        manifest_sha256: Sha256Digest::of(b"manifest"),
        mode,
        contract: "host/1".to_owned(),
        runtime: RuntimeIdentity {
            version: "0.1.0".to_owned(),
            commit: None,
            isa: isa.to_owned(),
            threads: 2,
        },
        vocabulary: VOCABULARY,
        records: records.collect(),
    }
}

fn whole(mode: MtpMode) -> Evidence {
    evidence(mode, "avx512", |_, _, _| {})
}

#[test]
fn another_machine_reproduces_a_proof() {
    for mode in [MtpMode::Off, MtpMode::On] {
        let proof = Proof::new(ModelIdentity::default(), &whole(mode), whole(mode)).unwrap();
        assert_eq!(proof.verdict, Verdict::Identical);
        let here = evidence(mode, "scalar", |_, _, _| {});
        assert_eq!(
            proof.evidence.compare(&here),
            Comparison::Reproduced { positions: 7 }
        );
    }
}

#[test]
fn one_changed_bit_is_named_by_record_and_position() {
    let proved = whole(MtpMode::Off);
    for (record, positions) in [(0, 3), (1, 4)] {
        for position in 0..positions {
            for token in 0..VOCABULARY {
                let here = evidence(MtpMode::Off, "avx2", |r, p, row| {
                    if (r, p) == (record, position) {
                        row[token] = f32::from_bits(row[token].to_bits() ^ 1);
                    }
                });
                let expected = Comparison::DiffersAt {
                    record: format!("text {record}"),
                    position: Some(position),
                };
                assert_eq!(proved.compare(&here), expected);
            }
        }
    }
}

#[test]
fn zero_and_negative_zero_differ() {
    let zero = |value: f32| {
        evidence(MtpMode::Off, "x", move |r, p, row| {
            if (r, p) == (0, 0) {
                row[0] = value;
            }
        })
    };
    let found = zero(0.0).compare(&zero(-0.0));
    assert_eq!(
        found,
        Comparison::DiffersAt {
            record: "text 0".to_owned(),
            position: Some(0)
        }
    );
}

#[test]
fn a_bit_flipped_in_a_proof_file_is_found() {
    let proof = Proof::new(
        ModelIdentity::default(),
        &whole(MtpMode::Off),
        whole(MtpMode::Off),
    )
    .unwrap();
    let json = String::from_utf8(to_json(&proof).unwrap()).unwrap();
    assert_eq!(Proof::parse("p", json.as_bytes()).unwrap(), proof);
    let here = whole(MtpMode::Off);
    let flip = |text: &str| {
        let first = text.chars().next().unwrap();
        let other = if first == '0' { "1" } else { "0" };
        let spoilt = json.replacen(text, &format!("{other}{}", &text[1..]), 1);
        Proof::parse("p", spoilt.as_bytes())
            .unwrap()
            .evidence
            .compare(&here)
    };
    let record = &proof.evidence.records[1];
    let text_1 = |position| Comparison::DiffersAt {
        record: "text 1".to_owned(),
        position,
    };
    assert_eq!(flip(&record.rows[2].to_string()), text_1(Some(2)));
    assert_eq!(flip(&record.logits_sha256.to_string()), text_1(None));
    let tokens = flip(&record.tokens_sha256.to_string());
    assert!(
        matches!(tokens, Comparison::NotComparable { reason: Incomparable::Record { record, .. } } if record == "text 1")
    );
    let manifest = flip(&proof.evidence.manifest_sha256.to_string());
    assert!(matches!(
        manifest,
        Comparison::NotComparable {
            reason: Incomparable::Manifest { .. }
        }
    ));
}

#[test]
fn what_is_not_of_the_same_thing_is_not_compared() {
    let proved = whole(MtpMode::Off);
    let reason = |here: &Evidence| match proved.compare(here) {
        Comparison::NotComparable { reason } => reason,
        other => panic!("{other}"),
    };
    let mut here = whole(MtpMode::Off);
    here.contract = "host/2".to_owned();
    assert_eq!(
        proved.compare(&here).to_string(),
        "not comparable: runtime contract differs: proved under host/1, here host/2"
    );
    assert!(matches!(
        reason(&whole(MtpMode::On)),
        Incomparable::Mode { .. }
    ));
    let mut here = whole(MtpMode::Off);
    here.vocabulary = 4;
    assert!(matches!(
        reason(&here),
        Incomparable::Vocabulary { proved: 5, here: 4 }
    ));
    let mut here = whole(MtpMode::Off);
    let last = here.records.pop().unwrap();
    assert!(matches!(reason(&here), Incomparable::Record { record, .. } if record == "text 1"));
    here.records.extend([last.clone(), last]);
    assert!(
        matches!(reason(&here), Incomparable::Record { what, .. } if what == "it is not in the proof")
    );
}

#[test]
fn a_difference_to_the_original_is_the_verdict() {
    let restored = evidence(MtpMode::Off, "avx2", |r, p, row| {
        if (r, p) == (1, 3) {
            row[0] += 1.0;
        }
    });
    let proof = Proof::new(ModelIdentity::default(), &whole(MtpMode::Off), restored).unwrap();
    assert_eq!(
        proof.verdict,
        Verdict::Differs {
            record: "text 1".to_owned(),
            position: Some(3)
        }
    );
    let error = Proof::new(
        ModelIdentity::default(),
        &whole(MtpMode::Off),
        whole(MtpMode::On),
    )
    .unwrap_err();
    assert!(matches!(error, ManifestError::Proof { .. }));
}

#[test]
fn a_proof_that_contradicts_itself_is_refused() {
    let json = |mode, edit: &dyn Fn(&mut serde_json::Value)| {
        let proof = Proof::new(ModelIdentity::default(), &whole(mode), whole(mode)).unwrap();
        let mut value = serde_json::to_value(&proof).unwrap();
        edit(&mut value);
        match Proof::parse("p", value.to_string().as_bytes()) {
            Err(ManifestError::Proof { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    let off = |edit: &dyn Fn(&mut serde_json::Value)| json(MtpMode::Off, edit);
    let on = |edit: &dyn Fn(&mut serde_json::Value)| json(MtpMode::On, edit);
    assert_eq!(off(&|v| v["records"] = serde_json::json!([])), "records");
    assert_eq!(
        off(&|v| v["records"][0]["positions"] = 2.into()),
        "records[0].rows"
    );
    assert_eq!(
        off(&|v| v["records"][1]["positions"] = 0.into()),
        "records[1].positions"
    );
    assert_eq!(
        off(&|v| v["records"][1]["name"] = "text 0".into()),
        "records[1].name"
    );
    assert_eq!(off(&|v| v["mode"] = "on".into()), "records[0].drafting");
    assert_eq!(on(&|v| v["mode"] = "off".into()), "records[0].drafting");
    assert_eq!(
        on(&|v| v["records"][0]["drafting"]["proposed"] = 0.into()),
        "records[0].drafting"
    );
    assert_eq!(
        on(&|v| v["records"][0]["drafting"]["accepted"] = 9.into()),
        "records[0].drafting"
    );
}

#[test]
fn a_proof_of_another_format_is_refused() {
    let error = Proof::parse("p", br#"{"format": "tt-native/9"}"#).unwrap_err();
    assert!(matches!(error, ManifestError::Version { found, .. } if found == "tt-native/9"));
}
