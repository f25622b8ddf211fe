//! What each command does.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use native_manifest::StoredType;
use native_manifest::schema::{FORMAT, PrecisionOverride, PrecisionOverrides};
use qwen35_model::ModelConfig;
use qwen35_quantize::budget::{Gains, fit};
use qwen35_quantize::plan::SourceTypes;
use qwen35_quantize::{PackageIdentity, Plan, Precision, SourceModel, convert};

use crate::args::{Args, Choice, Command, ConvertArgs, PlanArgs};
use crate::output::{Bar, print_plan, print_plan_json};

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Plan(args) => show_plan(args),
        Command::Convert(args) => convert_package(args),
    }
}

fn show_plan(args: &PlanArgs) -> Result<()> {
    let (config, types) = match (&args.config, &args.source) {
        (_, Some(source)) => {
            let source = SourceModel::open(source, true)?;
            (source.config.clone(), source.types()?)
        }
        (Some(path), None) => {
            let json = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            (
                ModelConfig::parse(&json).with_context(|| path.display().to_string())?,
                SourceTypes::new(),
            )
        }
        (None, None) => unreachable!("clap requires one of the two"),
    };
    let plan = make_plan(&config, &types, &args.choice)?;
    if args.json {
        print_plan_json(&plan)
    } else {
        print_plan(&plan)
    }
}

fn make_plan(config: &ModelConfig, types: &SourceTypes, choice: &Choice) -> Result<Plan> {
    let mut plan = Plan::new(config, types, choice.preset, &choice.overrides)?;
    if let Some(budget) = choice.budget_bytes {
        let gains: Option<Gains> = match &choice.gains {
            None => None,
            Some(path) => {
                let json =
                    fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                Some(serde_json::from_slice(&json).with_context(|| path.display().to_string())?)
            }
        };
        fit(&mut plan, budget, gains.as_ref())?;
    }
    Ok(plan)
}

fn convert_package(args: &ConvertArgs) -> Result<()> {
    let source = SourceModel::open(&args.source, args.requantise)?;
    let plan = make_plan(&source.config, &source.types()?, &args.choice)?;
    if args.dry_run {
        return if args.json {
            print_plan_json(&plan)
        } else {
            print_plan(&plan)
        };
    }
    let name = match &args.name {
        Some(name) => name.clone(),
        None => folder_name(&args.source)?,
    };
    let identity = PackageIdentity {
        release: folder_name(&args.out)?,
        name,
        repository: args.source_repo.as_deref().map(str::parse).transpose()?,
        revision: args
            .source_revision
            .as_deref()
            .map(str::parse)
            .transpose()?,
        overrides: overrides(&args.choice),
    };
    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = args.threads {
        pool = pool.num_threads(threads);
    }
    let bar = Bar::default();
    let inventory = pool
        .build()?
        .install(|| convert(&source, &plan, identity, &args.out, &bar))?;
    bar.finish();
    let totals = inventory.totals();
    let vision = source.checkpoint.vision_tensors();
    if args.json {
        let result = serde_json::json!({
            "package": args.out, "files": totals.files, "bytes": totals.bytes, "target_tensors": plan.tensors.len(),
            "mtp_tensors": plan.mtp.len(), "vision_tensors_skipped": vision,
        });
        println!("{result:#}");
    } else {
        println!(
            "{}: {} files, {} bytes",
            args.out.display(),
            totals.files,
            totals.bytes
        );
        if vision > 0 {
            println!("{vision} tensors of the vision tower were skipped");
        }
    }
    Ok(())
}

/// The overrides as the package records them: first match first.
fn overrides(choice: &Choice) -> Option<PrecisionOverrides> {
    let rules = choice.overrides.iter().rev().map(|rule| PrecisionOverride {
        pattern: rule.pattern.to_string(),
        dtype: match rule.precision {
            Precision::Bfp4 => StoredType::Bfp4,
            Precision::Bfp8 => StoredType::Bfp8,
            Precision::Bf16 => StoredType::Bf16,
            Precision::F32 => StoredType::F32,
        },
        reason: None,
    });
    let overrides: Vec<_> = rules.collect();
    (!overrides.is_empty()).then(|| PrecisionOverrides {
        format: FORMAT.to_owned(),
        preset: Some(choice.preset.name().to_owned()),
        overrides,
        other: serde_json::Map::new(),
    })
}

fn folder_name(folder: &Path) -> Result<String> {
    let full = std::path::absolute(folder)?;
    let name = full
        .file_name()
        .with_context(|| format!("{} has no name", folder.display()))?;
    Ok(name.to_string_lossy().into_owned())
}
