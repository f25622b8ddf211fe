//! Names of tensors: the official ones without the prefix of the text trunk.
//!
//! `model.language_model.layers.0.mlp.up_proj.weight` (official) and
//! `model.layers.0.mlp.up_proj.weight` (text-only exports) are both `layers.0.mlp.up_proj.weight`
//! here and in a native package. The head is `lm_head.weight`, the MTP head `mtp.*`.

/// The embedding table, `[vocab, hidden]`.
pub const EMBED: &str = "embed_tokens.weight";
/// The final norm, `[hidden]`, zero-centred.
pub const NORM: &str = "norm.weight";
/// The output head, `[vocab, hidden]`.
pub const HEAD: &str = "lm_head.weight";

/// `layers.{layer}.{part}`, such as `layers.3.self_attn.q_proj.weight`.
#[must_use]
pub fn layer(layer: usize, part: &str) -> String {
    format!("layers.{layer}.{part}")
}

/// `mtp.{part}`.
#[must_use]
pub fn mtp(part: &str) -> String {
    format!("mtp.{part}")
}

/// The name without the prefix of the text trunk; `None` for tensors of the vision tower.
#[must_use]
pub fn canonical(official: &str) -> Option<&str> {
    if official.starts_with("model.visual.") || official.starts_with("visual.") {
        return None;
    }
    Some(
        official
            .strip_prefix("model.language_model.")
            .or_else(|| official.strip_prefix("language_model.model."))
            .or_else(|| official.strip_prefix("model."))
            .unwrap_or(official),
    )
}

/// Parts of a fused tensor when a package stores it split, in row order of the fused one.
///
/// `in_proj_qkv` may be stored as `in_proj_q`, `in_proj_k`, `in_proj_v`.
#[must_use]
pub fn split_parts(name: &str) -> Option<[String; 3]> {
    let stem = name.strip_suffix("in_proj_qkv.weight")?;
    Some(["q", "k", "v"].map(|part| format!("{stem}in_proj_{part}.weight")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_prefixes_lead_to_one_name() {
        assert_eq!(
            canonical("model.language_model.norm.weight"),
            Some("norm.weight")
        );
        assert_eq!(canonical("model.norm.weight"), Some("norm.weight"));
        assert_eq!(canonical("lm_head.weight"), Some("lm_head.weight"));
        assert_eq!(canonical("mtp.fc.weight"), Some("mtp.fc.weight"));
        assert_eq!(canonical("model.visual.patch_embed.proj.weight"), None);
    }

    #[test]
    fn only_the_fused_projection_splits() {
        let parts = split_parts("layers.0.linear_attn.in_proj_qkv.weight").unwrap();
        assert_eq!(parts[2], "layers.0.linear_attn.in_proj_v.weight");
        assert_eq!(split_parts("layers.0.linear_attn.in_proj_z.weight"), None);
    }
}
