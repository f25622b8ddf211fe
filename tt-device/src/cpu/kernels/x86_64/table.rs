//! What every x86-64 table has in common.

/// One intrinsic inside a method of a token.
macro_rules! intrinsic {
    ($call:expr) => {
        // SAFETY: a token of the instruction set is at hand (`self`), and `present()` makes one only
        // in functions that enable the set, which are entered only after its detection.
        unsafe { $call }
    };
}

/// The table of an instruction set: each kernel of `simd`, inlined into a function that enables it.
macro_rules! kernel_table {
    ($isa:expr, $token:ident, $features:literal) => {
        impl $token {
            #[target_feature(enable = $features)]
            fn present() -> Self {
                Self(())
            }
        }

        pub(super) const KERNELS: Kernels = Kernels {
            isa: $isa,
            linear: kernel_table!(@entry $token, $features, simd::linear::linear, (part: &LinearPart<'_>, out: &mut [&mut [f32]])),
            round: kernel_table!(@entry $token, $features, simd::elementwise::round, (x: &[f32], out: &mut [f32])),
            rms_norm: kernel_table!(@entry $token, $features, simd::norm::rms_norm, (x: &[f32], scale: &[f32], eps: f32, out: &mut [f32])),
            l2_norm: kernel_table!(@entry $token, $features, simd::norm::l2_norm, (x: &[f32], eps: f32, scale: f32, out: &mut [f32])),
            add: kernel_table!(@entry $token, $features, simd::elementwise::add, (x: &mut [f32], y: &[f32])),
            silu_mul: kernel_table!(@entry $token, $features, simd::elementwise::silu_mul, (gate: &[f32], up: &[f32], out: &mut [f32])),
            sigmoid_mul: kernel_table!(@entry $token, $features, simd::elementwise::sigmoid_mul, (x: &mut [f32], gate: &[f32])),
            conv_silu: kernel_table!(@entry $token, $features, simd::convolution::conv_silu, (taps: FourRows<'_>, rows: FourRows<'_>, out: &mut [f32])),
            delta: kernel_table!(@entry $token, $features, simd::delta::delta, (head: &DeltaHead<'_>, lanes: &mut [&mut [f32]], out: &mut [f32])),
            attend: kernel_table!(@entry $token, $features, simd::attention::attend, (group: &AttendGroup<'_>, scores: &mut Vec<f32>, out: &mut [f32])),
            argmax: kernel_table!(@entry $token, $features, simd::elementwise::argmax, (row: &[f32]) -> usize),
        };
    };
    // The body of `Simd::enter`.
    (@enter $features:literal, $self:ident, $kernel:ident) => {{
        #[target_feature(enable = $features)]
        fn enabled<K: Kernel>(s: impl Simd, kernel: K) {
            kernel.run(s);
        }
        intrinsic!(enabled($self, $kernel))
    }};
    (@entry $token:ident, $features:literal, $kernel:path, ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {{
        #[target_feature(enable = $features)]
        fn enabled($($argument: $type),*) $(-> $result)? {
            $kernel($token::present(), $($argument),*)
        }
        fn entry($($argument: $type),*) $(-> $result)? {
            // SAFETY: `super::table`, the only way to this function, asserts that the set is present.
            unsafe { enabled($($argument),*) }
        }
        entry
    }};
}
