use std::ops::AddAssign;

/// What drafting brought, over one request or many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Passes of the target behind the prompt, with or without drafts.
    pub rounds: u64,
    /// Of those, the ones with at least one draft.
    pub drafted_rounds: u64,
    /// Drafts that the target verified.
    pub drafted: u64,
    /// Drafts that became output.
    pub accepted: u64,
    /// Drafts that were thrown away unverified: no token of the vocabulary, or more than asked for.
    pub refused: u64,
    /// Tokens that those passes emitted. The first token of an output needs no pass and is not counted.
    pub emitted: u64,
    /// Drafts verified and accepted by their place in the block: first draft, second, ..
    pub by_place: Vec<PlaceCount>,
}

/// How the drafts in one place of the block fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceCount {
    /// Drafts verified in this place.
    pub drafted: u64,
    /// Of those, the ones that became output.
    pub accepted: u64,
}

impl Statistics {
    /// Nothing counted.
    pub(crate) const NONE: Self = Self {
        rounds: 0,
        drafted_rounds: 0,
        drafted: 0,
        accepted: 0,
        refused: 0,
        emitted: 0,
        by_place: Vec::new(),
    };

    /// Share of the verified drafts that became output; `None` when nothing was drafted.
    #[must_use]
    pub fn acceptance(&self) -> Option<f64> {
        (self.drafted > 0).then(|| ratio(self.accepted, self.drafted))
    }

    /// Mean tokens emitted per pass of the target; `None` before the first.
    #[must_use]
    pub fn tokens_per_round(&self) -> Option<f64> {
        (self.rounds > 0).then(|| ratio(self.emitted, self.rounds))
    }

    /// Counts one kept round.
    pub(crate) fn record(&mut self, drafted: usize, accepted: usize, emitted: usize) {
        self.rounds += 1;
        self.drafted_rounds += u64::from(drafted > 0);
        self.drafted += drafted as u64;
        self.accepted += accepted as u64;
        self.emitted += emitted as u64;
        if self.by_place.len() < drafted {
            self.by_place.resize(drafted, PlaceCount::default());
        }
        for (place, count) in self.by_place.iter_mut().take(drafted).enumerate() {
            count.drafted += 1;
            count.accepted += u64::from(place < accepted);
        }
    }
}

impl AddAssign<&Self> for Statistics {
    fn add_assign(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.drafted_rounds += other.drafted_rounds;
        self.drafted += other.drafted;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.emitted += other.emitted;
        if self.by_place.len() < other.by_place.len() {
            self.by_place
                .resize(other.by_place.len(), PlaceCount::default());
        }
        for (sum, count) in self.by_place.iter_mut().zip(&other.by_place) {
            sum.drafted += count.drafted;
            sum.accepted += count.accepted;
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up_by_place() {
        let mut first = Statistics::default();
        assert_eq!(first.acceptance(), None);
        first.record(0, 0, 1);
        first.record(1, 1, 2);
        let mut second = Statistics::default();
        second.record(3, 1, 2);
        first += &second;
        assert_eq!(
            (
                first.rounds,
                first.drafted_rounds,
                first.drafted,
                first.accepted,
                first.emitted
            ),
            (3, 2, 4, 2, 5)
        );
        let places: Vec<(u64, u64)> = first
            .by_place
            .iter()
            .map(|p| (p.drafted, p.accepted))
            .collect();
        assert_eq!(places, [(2, 2), (1, 0), (1, 0)]);
        assert_eq!(first.acceptance(), Some(0.5));
    }
}
