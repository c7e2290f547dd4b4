// hot.rs - generics, closures, traits and modules, where the time goes; for specs of symbols.
use std::hint::black_box;

mod inner {
    pub trait Work {
        fn work(&self, n: u64) -> u64;
    }

    pub struct Boxed<T>(pub Vec<T>);

    impl<T: Copy + Into<u64>> Work for Boxed<T> {
        #[inline(never)]
        fn work(&self, n: u64) -> u64 {
            (0..n).map(|i| super::spin(i, self.0[i as usize % self.0.len()].into())).sum()
        }
    }
}

#[inline(never)]
fn spin(seed: u64, n: u64) -> u64 {
    let mut s = seed;
    for i in 0..n {
        s = black_box(s.wrapping_mul(31).wrapping_add(i));
    }
    s
}

#[inline(never)]
fn apply<F: Fn(u64) -> u64>(f: F, n: u64) -> u64 {
    f(n) + 1
}

fn main() {
    let times: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    let b = inner::Boxed(vec![2000u32; 16]);
    let mut s = 0;
    for i in 0..times {
        s ^= inner::Work::work(&b, 100) ^ apply(|n| spin(n, 100000) + i, i);
    }
    std::process::exit((black_box(s) == 42) as i32);
}
