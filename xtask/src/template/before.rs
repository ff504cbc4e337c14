use parts::Storage;

pub fn size(storage: &Storage) -> usize {
    match storage {
        Storage::Disk(disk) => disk.len(),
        Storage::Memory(_) => 0,
    }
}
