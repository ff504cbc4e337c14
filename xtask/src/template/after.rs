use parts::DiskStorage;

pub fn size(storage: &DiskStorage) -> usize {
    storage.len()
}
