//! I18: full disks, before and in the middle.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use hf_fetch::{Disk, FetchError, SystemDisk};
use misbehaving_hub::Content;

use crate::harness::{Scene, noise};

/// A disk that says it has `free` bytes and takes `room` bytes.
#[derive(Debug)]
struct SmallDisk {
    free: u64,
    room: AtomicI64,
}

impl Disk for SmallDisk {
    fn free(&self, _folder: &Path) -> io::Result<u64> {
        Ok(self.free)
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let length = i64::try_from(bytes.len()).unwrap();
        if self.room.fetch_sub(length, Ordering::SeqCst) < length {
            return Err(io::ErrorKind::StorageFull.into());
        }
        SystemDisk.write_at(file, offset, bytes)
    }
}

fn files() -> Vec<(&'static str, Content)> {
    vec![
        ("a.tensorbin", noise(600_000)),
        ("b.tensorbin", noise(100_000)),
    ]
}

#[tokio::test]
async fn too_little_space_is_an_error_before_the_first_byte() {
    let mut scene = Scene::new(files());
    scene.options.disk = Arc::new(SmallDisk {
        free: 699_999,
        room: AtomicI64::new(i64::MAX),
    });
    let plan = scene.plan().await.unwrap();
    let error = scene.fetch().await.unwrap_err();
    let FetchError::DiskSpace { needed, free, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((*needed, *free), (plan.disk_bytes(), 699_999));
    assert!(error.to_string().contains("699999"), "{error}");
    assert!(scene.hub.seen_for("a.tensorbin").is_empty());
}

#[tokio::test]
async fn a_disk_that_fills_up_keeps_the_part_and_the_next_run_continues() {
    let mut scene = Scene::new(files());
    scene.options.jobs = 1;
    scene.options.disk = Arc::new(SmallDisk {
        free: u64::MAX,
        room: AtomicI64::new(400_000),
    });
    let error = scene.fetch().await.unwrap_err();
    let FetchError::Io {
        doing: "writing",
        source,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    scene.assert_nothing_named("a.tensorbin");
    assert!(!scene.parts().is_empty());
    scene.options.disk = Arc::new(SystemDisk);
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(
        fetched.received < 700_000,
        "{} bytes came again",
        fetched.received
    );
}

#[test]
fn the_systems_own_disk_knows_its_free_space() {
    assert!(SystemDisk.free(Path::new("/")).unwrap() > 0);
    assert!(SystemDisk.free(Path::new("/nonexistent")).is_err());
}
