//! Readers of field values that clients write in more than one way.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A whole number, also where it is written as `5.0`.
///
/// # Errors
/// A number with a fraction, one that `T` cannot hold, and anything that is not a number.
pub(crate) fn whole<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i128>,
{
    struct Whole<T>(PhantomData<T>);

    impl<T: TryFrom<i128>> Visitor<'_> for Whole<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number in range")
        }

        fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
            let held = T::try_from(value.into()).ok();
            held.map(Some)
                .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(value), &self))
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
            let held = T::try_from(value.into()).ok();
            held.map(Some)
                .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
        }

        fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
            // Whole floats up to 2^53 are exact.
            let exact = value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "whole and below 2^53 in magnitude, checked above"
            )]
            let held = exact.then(|| T::try_from(value as i128).ok()).flatten();
            held.map(Some)
                .ok_or_else(|| E::invalid_value(de::Unexpected::Float(value), &self))
        }
    }

    deserializer.deserialize_any(Whole(PhantomData))
}

/// A list of whole numbers.
///
/// # Errors
/// As [`whole`], for the first bad entry, and anything that is not a list.
pub(crate) fn whole_list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i128>,
{
    struct Entry<T>(Option<T>);

    impl<'de, T: TryFrom<i128>> Deserialize<'de> for Entry<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            whole(deserializer).map(Self)
        }
    }

    let entries = Vec::<Entry<T>>::deserialize(deserializer)?;
    Ok(Some(
        entries.into_iter().filter_map(|entry| entry.0).collect(),
    ))
}

/// One string or a list of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings(pub Vec<String>);

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Strings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Strings(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut strings = Vec::new();
                while let Some(text) = list.next_element::<Option<String>>()? {
                    strings.extend(text);
                }
                Ok(Strings(strings))
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}

/// `logit_bias`: OpenAI's `{"id": bias}`, or llama.cpp's `[[id, bias], ..]` with `false` for a ban.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Biases(pub Vec<(u32, f64)>);

/// What a bias of `false` means: the lowest that OpenAI allows, which is a ban.
const BAN: f64 = -100.0;

impl<'de> Deserialize<'de> for Biases {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Bias {
            Number(f64),
            Switch(bool),
        }

        fn number<E: de::Error>(bias: &Bias) -> Result<f64, E> {
            match bias {
                Bias::Number(number) => Ok(*number),
                Bias::Switch(false) => Ok(BAN),
                Bias::Switch(true) => Err(E::custom("true is not a bias")),
            }
        }

        struct MapOrPairs;

        impl<'de> Visitor<'de> for MapOrPairs {
            type Value = Biases;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from token ids to biases")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut biases = Vec::new();
                while let Some((id, bias)) = map.next_entry::<String, Bias>()? {
                    let id = id
                        .parse()
                        .map_err(|_| de::Error::custom(format_args!("{id:?} is not a token id")))?;
                    biases.push((id, number(&bias)?));
                }
                Ok(Biases(biases))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut biases = Vec::new();
                while let Some((id, bias)) = list.next_element::<(u32, Bias)>()? {
                    biases.push((id, number(&bias)?));
                }
                Ok(Biases(biases))
            }
        }

        deserializer.deserialize_any(MapOrPairs)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_whole_number_may_be_written_as_a_float_but_not_with_a_fraction() {
        let read = |value: Value| whole::<_, u32>(value).ok().flatten();
        assert_eq!(read(json!(5)), Some(5));
        assert_eq!(read(json!(5.0)), Some(5));
        assert_eq!(read(json!(-0.0)), Some(0));
        for bad in [
            json!(5.5),
            json!(-1),
            json!(1e300),
            json!("5"),
            json!(true),
            json!(4294967296_u64),
        ] {
            assert_eq!(read(bad.clone()), None, "{bad}");
        }
        assert_eq!(whole::<_, i64>(json!(-3.0)).unwrap(), Some(-3));
        assert_eq!(
            whole_list::<_, u32>(json!([1, 2.0])).unwrap(),
            Some(vec![1, 2])
        );
        assert!(whole_list::<_, u32>(json!([1, "2"])).is_err());
    }

    #[test]
    fn strings_come_alone_or_in_a_list() {
        let read = |value: Value| serde_json::from_value::<Strings>(value).map(|s| s.0);
        assert_eq!(read(json!("a")).unwrap(), ["a"]);
        assert_eq!(read(json!([])).unwrap(), Vec::<String>::new());
        assert_eq!(read(json!(["a", "b"])).unwrap(), ["a", "b"]);
        assert!(read(json!(1)).is_err());
        assert!(read(json!([1])).is_err());
    }

    #[test]
    fn biases_come_as_a_map_or_as_pairs() {
        let read = |value: Value| serde_json::from_value::<Biases>(value).map(|b| b.0);
        assert_eq!(
            read(json!({"5": -100, "6": 1.5})).unwrap(),
            [(5, -100.0), (6, 1.5)]
        );
        assert_eq!(
            read(json!([[5, false], [6, 1]])).unwrap(),
            [(5, BAN), (6, 1.0)]
        );
        for bad in [
            json!({"x": 1}),
            json!({"-1": 1}),
            json!({"1": "2"}),
            json!([[1, true]]),
            json!(3),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
