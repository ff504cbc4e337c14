//! The part of the standard library that inference needs: signatures, in Rust.
//!
//! `#[pure]` marks what has no effect but its value. Whatever iterates is an `Iter` here: its adapters are methods, so that
//! one declaration serves all. Slices and arrays have their methods on `Slice`.

pub const TEXT: &str = r#"
pub mod prelude {
    pub use crate::option::Option::{self, Some, None};
    pub use crate::result::Result::{self, Ok, Err};
    pub use crate::boxed::Box;
    pub use crate::vec::Vec;
    pub use crate::string::String;
    pub use crate::iter::{Iterator, IntoIterator, Extend, DoubleEndedIterator, ExactSizeIterator, FromIterator};
    pub use crate::convert::{From, Into, AsRef, AsMut, TryFrom, TryInto};
    pub use crate::clone::Clone;
    pub use crate::default::Default;
    pub use crate::mem::drop;
    pub use crate::ops::{Fn, FnMut, FnOnce, Drop};
    pub use crate::marker::{Send, Sync, Sized, Copy, Unpin};
    pub use crate::borrow::ToOwned;
    pub use crate::string::ToString;
    pub use crate::cmp::{PartialEq, Eq, PartialOrd, Ord};
}
pub mod marker { pub trait Send {} pub trait Sync {} pub trait Sized {} pub trait Copy {} pub trait Unpin {} pub struct PhantomData<T>(T); }
pub mod cmp { pub trait PartialEq<T> {} pub trait Eq {} pub trait PartialOrd<T> {} pub trait Ord {} pub struct Reverse<T>(pub T); }
pub mod ops {
    pub trait Fn {} pub trait FnMut {} pub trait FnOnce {} pub trait Drop { fn drop(&mut self); }
    pub trait Deref { type Target; fn deref(&self) -> &Self::Target; }
    pub trait DerefMut { fn deref_mut(&mut self) -> &mut Self::Target; }
    pub trait Index<I> { type Output; } pub trait IndexMut<I> {}
    pub struct Range<T> { pub start: T, pub end: T }
}
pub mod clone { pub trait Clone { } }
pub mod default { pub trait Default { fn default() -> Self; } }
pub mod borrow { pub trait ToOwned {} pub trait Borrow<T> {} pub enum Cow<T> { Borrowed(T), Owned(T) } }
pub mod convert {
    pub trait From<T> {} pub trait Into<T> {} pub trait AsRef<T> { fn as_ref(&self) -> &T; } pub trait AsMut<T> { fn as_mut(&mut self) -> &mut T; }
    pub trait TryFrom<T> {} pub trait TryInto<T> {} pub enum Infallible {}
    pub fn identity<T>(value: T) -> T {}
}
pub mod mem {
    pub fn drop<T>(value: T) {}
    pub fn take<T>(place: &mut T) -> T {}
    pub fn replace<T>(place: &mut T, value: T) -> T {}
    pub fn swap<T>(a: &mut T, b: &mut T) {}
    pub fn forget<T>(value: T) {}
    #[pure] pub fn size_of<T>() -> usize {}
    #[pure] pub fn size_of_val<T>(value: &T) -> usize {}
}
pub mod error { pub trait Error {} }
pub mod fmt { pub trait Debug {} pub trait Display {} pub struct Formatter; pub struct Error; pub type Result = crate::result::Result<(), Error>; pub trait Write {} }
pub mod option {
    pub enum Option<T> { None, Some(T) }
    impl<T> Option<T> {
        #[pure] pub fn is_some(&self) -> bool {}
        #[pure] pub fn is_none(&self) -> bool {}
        pub fn is_some_and(self, f: impl FnOnce(T) -> bool) -> bool {}
        pub fn is_none_or(self, f: impl FnOnce(T) -> bool) -> bool {}
        #[pure] pub fn as_ref(&self) -> Option<&T> {}
        #[pure] pub fn as_mut(&mut self) -> Option<&mut T> {}
        #[pure] pub fn as_slice(&self) -> &[T] {}
        pub fn expect(self, msg: &str) -> T {}
        pub fn unwrap(self) -> T {}
        pub fn unwrap_or(self, default: T) -> T {}
        pub fn unwrap_or_else(self, f: impl FnOnce() -> T) -> T {}
        pub fn unwrap_or_default(self) -> T {}
        pub unsafe fn unwrap_unchecked(self) -> T {}
        pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Option<U> {}
        pub fn inspect(self, f: impl FnOnce(&T)) -> Option<T> {}
        pub fn map_or<U>(self, default: U, f: impl FnOnce(T) -> U) -> U {}
        pub fn map_or_else<U>(self, default: impl FnOnce() -> U, f: impl FnOnce(T) -> U) -> U {}
        pub fn ok_or<E>(self, err: E) -> crate::result::Result<T, E> {}
        pub fn ok_or_else<E>(self, err: impl FnOnce() -> E) -> crate::result::Result<T, E> {}
        pub fn and<U>(self, other: Option<U>) -> Option<U> {}
        pub fn and_then<U>(self, f: impl FnOnce(T) -> Option<U>) -> Option<U> {}
        pub fn filter(self, f: impl FnOnce(&T) -> bool) -> Option<T> {}
        pub fn or(self, other: Option<T>) -> Option<T> {}
        pub fn or_else(self, f: impl FnOnce() -> Option<T>) -> Option<T> {}
        pub fn xor(self, other: Option<T>) -> Option<T> {}
        pub fn insert(&mut self, value: T) -> &mut T {}
        pub fn get_or_insert(&mut self, value: T) -> &mut T {}
        pub fn get_or_insert_with(&mut self, f: impl FnOnce() -> T) -> &mut T {}
        pub fn take(&mut self) -> Option<T> {}
        pub fn take_if(&mut self, f: impl FnOnce(&mut T) -> bool) -> Option<T> {}
        pub fn replace(&mut self, value: T) -> Option<T> {}
        pub fn zip<U>(self, other: Option<U>) -> Option<(T, U)> {}
        pub fn iter(&self) -> crate::iter::Iter<&T> {}
        pub fn iter_mut(&mut self) -> crate::iter::Iter<&mut T> {}
        pub fn into_iter(self) -> crate::iter::Iter<T> {}
        pub fn clone(&self) -> Option<T> {}
    }
    impl<T> Option<&T> { pub fn cloned(self) -> Option<T> {} pub fn copied(self) -> Option<T> {} }
    impl<T> Option<&mut T> { pub fn cloned(self) -> Option<T> {} pub fn copied(self) -> Option<T> {} }
    impl<T> Option<Option<T>> { pub fn flatten(self) -> Option<T> {} }
    impl<T, E> Option<crate::result::Result<T, E>> { pub fn transpose(self) -> crate::result::Result<Option<T>, E> {} }
    impl<T> Option<crate::boxed::Box<T>> { pub fn as_deref(&self) -> Option<&T> {} pub fn as_deref_mut(&mut self) -> Option<&mut T> {} }
    impl<T> Option<crate::sync::Arc<T>> { pub fn as_deref(&self) -> Option<&T> {} }
    impl<T> Option<crate::rc::Rc<T>> { pub fn as_deref(&self) -> Option<&T> {} }
    impl<T> Option<crate::vec::Vec<T>> { pub fn as_deref(&self) -> Option<&[T]> {} }
    impl Option<crate::string::String> { pub fn as_deref(&self) -> Option<&str> {} }
}
pub mod result {
    pub enum Result<T, E> { Ok(T), Err(E) }
    impl<T, E> Result<T, E> {
        #[pure] pub fn is_ok(&self) -> bool {}
        #[pure] pub fn is_err(&self) -> bool {}
        pub fn is_ok_and(self, f: impl FnOnce(T) -> bool) -> bool {}
        pub fn is_err_and(self, f: impl FnOnce(E) -> bool) -> bool {}
        pub fn ok(self) -> crate::option::Option<T> {}
        pub fn err(self) -> crate::option::Option<E> {}
        #[pure] pub fn as_ref(&self) -> Result<&T, &E> {}
        #[pure] pub fn as_mut(&mut self) -> Result<&mut T, &mut E> {}
        pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Result<U, E> {}
        pub fn map_or<U>(self, default: U, f: impl FnOnce(T) -> U) -> U {}
        pub fn map_or_else<U>(self, default: impl FnOnce(E) -> U, f: impl FnOnce(T) -> U) -> U {}
        pub fn map_err<F>(self, f: impl FnOnce(E) -> F) -> Result<T, F> {}
        pub fn inspect(self, f: impl FnOnce(&T)) -> Result<T, E> {}
        pub fn inspect_err(self, f: impl FnOnce(&E)) -> Result<T, E> {}
        pub fn and<U>(self, other: Result<U, E>) -> Result<U, E> {}
        pub fn and_then<U>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<U, E> {}
        pub fn or<F>(self, other: Result<T, F>) -> Result<T, F> {}
        pub fn or_else<F>(self, f: impl FnOnce(E) -> Result<T, F>) -> Result<T, F> {}
        pub fn unwrap(self) -> T {}
        pub fn expect(self, msg: &str) -> T {}
        pub fn unwrap_or(self, default: T) -> T {}
        pub fn unwrap_or_else(self, f: impl FnOnce(E) -> T) -> T {}
        pub fn unwrap_or_default(self) -> T {}
        pub fn unwrap_err(self) -> E {}
        pub fn expect_err(self, msg: &str) -> E {}
        pub fn iter(&self) -> crate::iter::Iter<&T> {}
        pub fn into_iter(self) -> crate::iter::Iter<T> {}
    }
    impl<T, E> Result<&T, E> { pub fn cloned(self) -> Result<T, E> {} pub fn copied(self) -> Result<T, E> {} }
    impl<T, E> Result<crate::option::Option<T>, E> { pub fn transpose(self) -> crate::option::Option<Result<T, E>> {} }
}
pub mod boxed {
    pub struct Box<T>(T);
    impl<T> Box<T> { pub fn new(value: T) -> Box<T> {} pub fn pin(value: T) -> crate::pin::Pin<Box<T>> {} pub fn clone(&self) -> Box<T> {} pub fn leak<'a>(value: Box<T>) -> &'a mut T {} pub fn as_ref(&self) -> &T {} pub fn as_mut(&mut self) -> &mut T {} }
    impl<T> crate::ops::Deref for Box<T> { type Target = T; }
}
pub mod pin { pub struct Pin<T>(T); impl<T> crate::ops::Deref for Pin<crate::boxed::Box<T>> { type Target = T; } }
pub mod rc {
    pub struct Rc<T>(T);
    impl<T> Rc<T> { pub fn new(value: T) -> Rc<T> {} #[pure] pub fn clone(this: &Rc<T>) -> Rc<T> {} pub fn get_mut(this: &mut Rc<T>) -> crate::option::Option<&mut T> {} pub fn try_unwrap(this: Rc<T>) -> crate::result::Result<T, Rc<T>> {} pub fn into_inner(this: Rc<T>) -> crate::option::Option<T> {} pub fn downgrade(this: &Rc<T>) -> Weak<T> {} pub fn as_ref(&self) -> &T {} }
    impl<T> crate::ops::Deref for Rc<T> { type Target = T; }
    pub struct Weak<T>(T);
    impl<T> Weak<T> { pub fn upgrade(&self) -> crate::option::Option<Rc<T>> {} }
}
pub mod cell {
    pub struct Cell<T>(T);
    impl<T> Cell<T> { pub fn new(value: T) -> Cell<T> {} pub fn get(&self) -> T {} pub fn set(&self, value: T) {} pub fn take(&self) -> T {} pub fn replace(&self, value: T) -> T {} pub fn into_inner(self) -> T {} }
    pub struct RefCell<T>(T); pub struct Ref<T>(T); pub struct RefMut<T>(T);
    impl<T> RefCell<T> { pub fn new(value: T) -> RefCell<T> {} pub fn borrow(&self) -> Ref<T> {} pub fn borrow_mut(&self) -> RefMut<T> {} pub fn into_inner(self) -> T {} pub fn get_mut(&mut self) -> &mut T {} pub fn replace(&self, value: T) -> T {} pub fn take(&self) -> T {} }
    impl<T> crate::ops::Deref for Ref<T> { type Target = T; }
    impl<T> crate::ops::Deref for RefMut<T> { type Target = T; }
    pub struct OnceCell<T>(T);
    impl<T> OnceCell<T> { pub fn new() -> OnceCell<T> {} pub fn get(&self) -> crate::option::Option<&T> {} pub fn set(&self, value: T) -> crate::result::Result<(), T> {} pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {} }
    pub struct LazyCell<T>(T); impl<T> crate::ops::Deref for LazyCell<T> { type Target = T; }
}
pub mod sync {
    pub struct Arc<T>(T);
    impl<T> Arc<T> { pub fn new(value: T) -> Arc<T> {} #[pure] pub fn clone(this: &Arc<T>) -> Arc<T> {} pub fn get_mut(this: &mut Arc<T>) -> crate::option::Option<&mut T> {} pub fn make_mut(this: &mut Arc<T>) -> &mut T {} pub fn try_unwrap(this: Arc<T>) -> crate::result::Result<T, Arc<T>> {} pub fn into_inner(this: Arc<T>) -> crate::option::Option<T> {} pub fn downgrade(this: &Arc<T>) -> Weak<T> {} pub fn as_ref(&self) -> &T {} pub fn ptr_eq(a: &Arc<T>, b: &Arc<T>) -> bool {} pub fn strong_count(this: &Arc<T>) -> usize {} }
    impl<T> crate::ops::Deref for Arc<T> { type Target = T; }
    pub struct Weak<T>(T);
    impl<T> Weak<T> { pub fn upgrade(&self) -> crate::option::Option<Arc<T>> {} }
    pub struct Mutex<T>(T); pub struct MutexGuard<T>(T); pub struct PoisonError<T>(T);
    pub type LockResult<T> = crate::result::Result<T, PoisonError<T>>;
    impl<T> PoisonError<T> { pub fn into_inner(self) -> T {} pub fn get_ref(&self) -> &T {} }
    impl<T> Mutex<T> { pub fn new(value: T) -> Mutex<T> {} pub fn lock(&self) -> crate::result::Result<MutexGuard<T>, PoisonError<MutexGuard<T>>> {} pub fn try_lock(&self) -> crate::result::Result<MutexGuard<T>, PoisonError<MutexGuard<T>>> {} pub fn into_inner(self) -> crate::result::Result<T, PoisonError<T>> {} pub fn get_mut(&mut self) -> crate::result::Result<&mut T, PoisonError<&mut T>> {} }
    impl<T> crate::ops::Deref for MutexGuard<T> { type Target = T; }
    pub struct RwLock<T>(T); pub struct RwLockReadGuard<T>(T); pub struct RwLockWriteGuard<T>(T);
    impl<T> RwLock<T> { pub fn new(value: T) -> RwLock<T> {} pub fn read(&self) -> crate::result::Result<RwLockReadGuard<T>, PoisonError<RwLockReadGuard<T>>> {} pub fn write(&self) -> crate::result::Result<RwLockWriteGuard<T>, PoisonError<RwLockWriteGuard<T>>> {} pub fn into_inner(self) -> crate::result::Result<T, PoisonError<T>> {} pub fn get_mut(&mut self) -> crate::result::Result<&mut T, PoisonError<&mut T>> {} }
    impl<T> crate::ops::Deref for RwLockReadGuard<T> { type Target = T; }
    impl<T> crate::ops::Deref for RwLockWriteGuard<T> { type Target = T; }
    pub struct OnceLock<T>(T);
    impl<T> OnceLock<T> { pub fn new() -> OnceLock<T> {} pub fn get(&self) -> crate::option::Option<&T> {} pub fn set(&self, value: T) -> crate::result::Result<(), T> {} pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {} }
    pub struct LazyLock<T>(T); impl<T> crate::ops::Deref for LazyLock<T> { type Target = T; }
    pub mod mpsc {
        pub struct Sender<T>(T); pub struct SyncSender<T>(T); pub struct Receiver<T>(T); pub struct SendError<T>(pub T); pub struct RecvError;
        pub fn channel<T>() -> (Sender<T>, Receiver<T>) {} pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {}
        impl<T> Sender<T> { pub fn send(&self, value: T) -> crate::result::Result<(), SendError<T>> {} pub fn clone(&self) -> Sender<T> {} }
        impl<T> SyncSender<T> { pub fn send(&self, value: T) -> crate::result::Result<(), SendError<T>> {} pub fn clone(&self) -> SyncSender<T> {} }
        impl<T> Receiver<T> { pub fn recv(&self) -> crate::result::Result<T, RecvError> {} pub fn try_recv(&self) -> crate::result::Result<T, RecvError> {} pub fn iter(&self) -> crate::iter::Iter<T> {} pub fn try_iter(&self) -> crate::iter::Iter<T> {} pub fn into_iter(self) -> crate::iter::Iter<T> {} }
    }
}
pub mod string { pub struct String; pub trait ToString { fn to_string(&self) -> String; } }
pub mod vec {
    pub struct Vec<T>(T);
    impl<T> Vec<T> {
        pub fn new() -> Vec<T> {} pub fn with_capacity(n: usize) -> Vec<T> {} pub fn from(items: &[T]) -> Vec<T> {}
        pub fn push(&mut self, value: T) {} pub fn pop(&mut self) -> crate::option::Option<T> {} pub fn remove(&mut self, at: usize) -> T {}
        pub fn swap_remove(&mut self, at: usize) -> T {} pub fn insert(&mut self, at: usize, value: T) {} pub fn clear(&mut self) {}
        pub fn extend(&mut self, items: impl IntoIterator<Item = T>) {} pub fn extend_from_slice(&mut self, items: &[T]) {}
        pub fn append(&mut self, other: &mut Vec<T>) {} pub fn truncate(&mut self, n: usize) {} pub fn retain(&mut self, f: impl FnMut(&T) -> bool) {}
        pub fn retain_mut(&mut self, f: impl FnMut(&mut T) -> bool) {}
        pub fn drain<R>(&mut self, range: R) -> crate::iter::Iter<T> {} pub fn into_iter(self) -> crate::iter::Iter<T> {} pub fn clone(&self) -> Vec<T> {}
        pub fn split_off(&mut self, at: usize) -> Vec<T> {} pub fn into_boxed_slice(self) -> crate::boxed::Box<[T]> {} #[pure] pub fn as_slice(&self) -> &[T] {} #[pure] pub fn as_mut_slice(&mut self) -> &mut [T] {}
        #[pure] pub fn len(&self) -> usize {} #[pure] pub fn is_empty(&self) -> bool {} #[pure] pub fn capacity(&self) -> usize {}
        pub fn resize(&mut self, n: usize, value: T) {} pub fn dedup_by(&mut self, f: impl FnMut(&mut T, &mut T) -> bool) {} pub fn dedup_by_key<K>(&mut self, f: impl FnMut(&mut T) -> K) {}
    }
    impl<T> crate::ops::Deref for Vec<T> { type Target = [T]; }
}
pub mod slice {
    pub struct Slice<T>(T);
    impl<T> Slice<T> {
        #[pure] pub fn len(&self) -> usize {} #[pure] pub fn is_empty(&self) -> bool {}
        #[pure] pub fn first(&self) -> crate::option::Option<&T> {} #[pure] pub fn last(&self) -> crate::option::Option<&T> {}
        pub fn first_mut(&mut self) -> crate::option::Option<&mut T> {} pub fn last_mut(&mut self) -> crate::option::Option<&mut T> {}
        #[pure] pub fn get(&self, at: usize) -> crate::option::Option<&T> {} pub fn get_mut(&mut self, at: usize) -> crate::option::Option<&mut T> {}
        #[pure] pub fn iter(&self) -> crate::iter::Iter<&T> {} pub fn iter_mut(&mut self) -> crate::iter::Iter<&mut T> {} pub fn into_iter(self) -> crate::iter::Iter<T> {}
        pub fn to_vec(&self) -> crate::vec::Vec<T> {} pub fn chunks(&self, n: usize) -> crate::iter::Iter<&[T]> {} pub fn chunks_mut(&mut self, n: usize) -> crate::iter::Iter<&mut [T]> {} pub fn windows(&self, n: usize) -> crate::iter::Iter<&[T]> {}
        pub fn split_first(&self) -> crate::option::Option<(&T, &[T])> {} pub fn split_last(&self) -> crate::option::Option<(&T, &[T])> {} pub fn split_at(&self, at: usize) -> (&[T], &[T]) {}
        pub fn sort_by(&mut self, f: impl FnMut(&T, &T) -> crate::cmp::Ordering) {} pub fn sort_by_key<K>(&mut self, f: impl FnMut(&T) -> K) {} pub fn sort_unstable_by_key<K>(&mut self, f: impl FnMut(&T) -> K) {} pub fn swap(&mut self, a: usize, b: usize) {} pub fn contains(&self, value: &T) -> bool {}
    }
}
pub mod collections {
    pub struct VecDeque<T>(T);
    impl<T> VecDeque<T> {
        pub fn new() -> VecDeque<T> {} pub fn with_capacity(n: usize) -> VecDeque<T> {} pub fn push_back(&mut self, value: T) {} pub fn push_front(&mut self, value: T) {}
        pub fn pop_back(&mut self) -> crate::option::Option<T> {} pub fn pop_front(&mut self) -> crate::option::Option<T> {} pub fn front(&self) -> crate::option::Option<&T> {} pub fn back(&self) -> crate::option::Option<&T> {}
        pub fn front_mut(&mut self) -> crate::option::Option<&mut T> {} pub fn back_mut(&mut self) -> crate::option::Option<&mut T> {}
        pub fn iter(&self) -> crate::iter::Iter<&T> {} pub fn iter_mut(&mut self) -> crate::iter::Iter<&mut T> {} pub fn into_iter(self) -> crate::iter::Iter<T> {} pub fn drain<R>(&mut self, range: R) -> crate::iter::Iter<T> {}
        #[pure] pub fn len(&self) -> usize {} #[pure] pub fn is_empty(&self) -> bool {} pub fn get(&self, at: usize) -> crate::option::Option<&T> {} pub fn clear(&mut self) {} pub fn retain(&mut self, f: impl FnMut(&T) -> bool) {} pub fn extend(&mut self, items: impl IntoIterator<Item = T>) {} pub fn clone(&self) -> VecDeque<T> {}
    }
    pub struct HashMap<K, V>(K, V); pub struct BTreeMap<K, V>(K, V); pub struct HashSet<T>(T); pub struct BTreeSet<T>(T); pub struct BinaryHeap<T>(T); pub struct LinkedList<T>(T);
    impl<K, V> HashMap<K, V> {
        pub fn new() -> HashMap<K, V> {} pub fn with_capacity(n: usize) -> HashMap<K, V> {} pub fn insert(&mut self, key: K, value: V) -> crate::option::Option<V> {} pub fn get<Q>(&self, key: &Q) -> crate::option::Option<&V> {} pub fn get_mut<Q>(&mut self, key: &Q) -> crate::option::Option<&mut V> {}
        pub fn remove<Q>(&mut self, key: &Q) -> crate::option::Option<V> {} #[pure] pub fn iter(&self) -> crate::iter::Iter<(&K, &V)> {} pub fn iter_mut(&mut self) -> crate::iter::Iter<(&K, &mut V)> {} pub fn into_iter(self) -> crate::iter::Iter<(K, V)> {} #[pure] pub fn values(&self) -> crate::iter::Iter<&V> {} pub fn values_mut(&mut self) -> crate::iter::Iter<&mut V> {} #[pure] pub fn keys(&self) -> crate::iter::Iter<&K> {} pub fn into_values(self) -> crate::iter::Iter<V> {} pub fn drain(&mut self) -> crate::iter::Iter<(K, V)> {} #[pure] pub fn len(&self) -> usize {} #[pure] pub fn is_empty(&self) -> bool {}
        pub fn retain(&mut self, f: impl FnMut(&K, &mut V) -> bool) {} pub fn entry(&mut self, key: K) -> Entry<K, V> {} pub fn contains_key<Q>(&self, key: &Q) -> bool {}
    }
    impl<K, V> BTreeMap<K, V> {
        pub fn new() -> BTreeMap<K, V> {} pub fn insert(&mut self, key: K, value: V) -> crate::option::Option<V> {} pub fn get<Q>(&self, key: &Q) -> crate::option::Option<&V> {} pub fn get_mut<Q>(&mut self, key: &Q) -> crate::option::Option<&mut V> {}
        pub fn remove<Q>(&mut self, key: &Q) -> crate::option::Option<V> {} #[pure] pub fn iter(&self) -> crate::iter::Iter<(&K, &V)> {} pub fn iter_mut(&mut self) -> crate::iter::Iter<(&K, &mut V)> {} pub fn into_iter(self) -> crate::iter::Iter<(K, V)> {} #[pure] pub fn values(&self) -> crate::iter::Iter<&V> {} pub fn values_mut(&mut self) -> crate::iter::Iter<&mut V> {} #[pure] pub fn keys(&self) -> crate::iter::Iter<&K> {} pub fn into_values(self) -> crate::iter::Iter<V> {} #[pure] pub fn len(&self) -> usize {} #[pure] pub fn is_empty(&self) -> bool {}
        pub fn retain(&mut self, f: impl FnMut(&K, &mut V) -> bool) {} pub fn entry(&mut self, key: K) -> Entry<K, V> {} pub fn contains_key<Q>(&self, key: &Q) -> bool {}
    }
    pub struct Entry<K, V>(K, V);
    impl<K, V> Entry<K, V> { pub fn or_insert<'a>(self, value: V) -> &'a mut V {} pub fn or_insert_with<'a>(self, f: impl FnOnce() -> V) -> &'a mut V {} pub fn or_default<'a>(self) -> &'a mut V {} }
    impl<T> HashSet<T> { pub fn new() -> HashSet<T> {} pub fn insert(&mut self, value: T) -> bool {} pub fn iter(&self) -> crate::iter::Iter<&T> {} pub fn into_iter(self) -> crate::iter::Iter<T> {} #[pure] pub fn len(&self) -> usize {} }
    impl<T> BTreeSet<T> { pub fn new() -> BTreeSet<T> {} pub fn insert(&mut self, value: T) -> bool {} pub fn iter(&self) -> crate::iter::Iter<&T> {} pub fn into_iter(self) -> crate::iter::Iter<T> {} #[pure] pub fn len(&self) -> usize {} }
    pub mod hash_map { pub use super::{HashMap, Entry}; } pub mod btree_map { pub use super::{BTreeMap, Entry}; } pub mod vec_deque { pub use super::VecDeque; }
}
pub mod iter {
    pub trait Iterator { type Item; fn next(&mut self) -> crate::option::Option<Self::Item>; } pub trait IntoIterator { type Item; type IntoIter; } pub trait DoubleEndedIterator {} pub trait ExactSizeIterator {} pub trait FusedIterator {} pub trait Extend<T> {} pub trait FromIterator<T> {} pub trait Sum<T> {} pub trait Product<T> {}
    pub struct Iter<T>(T);
    pub struct Peekable<I>(I); pub struct Fuse<I>(I); pub struct Rev<I>(I); pub struct Skip<I>(I); pub struct Take<I>(I); pub struct StepBy<I>(I); pub struct Cycle<I>(I);
    pub fn once<T>(value: T) -> Iter<T> {} pub fn repeat<T>(value: T) -> Iter<T> {} pub fn repeat_with<T>(f: impl FnMut() -> T) -> Iter<T> {} pub fn from_fn<T>(f: impl FnMut() -> crate::option::Option<T>) -> Iter<T> {} pub fn empty<T>() -> Iter<T> {} pub fn successors<T>(first: crate::option::Option<T>, f: impl FnMut(&T) -> crate::option::Option<T>) -> Iter<T> {}
    impl<T> Iter<T> {
        pub fn next(&mut self) -> crate::option::Option<T> {} pub fn next_back(&mut self) -> crate::option::Option<T> {} pub fn peek(&mut self) -> crate::option::Option<&T> {} pub fn peek_mut(&mut self) -> crate::option::Option<&mut T> {} pub fn next_if(&mut self, f: impl FnOnce(&T) -> bool) -> crate::option::Option<T> {}
        pub fn map<U>(self, f: impl FnMut(T) -> U) -> Iter<U> {} pub fn filter(self, f: impl FnMut(&T) -> bool) -> Iter<T> {} pub fn filter_map<U>(self, f: impl FnMut(T) -> crate::option::Option<U>) -> Iter<U> {} pub fn find_map<U>(&mut self, f: impl FnMut(T) -> crate::option::Option<U>) -> crate::option::Option<U> {} pub fn map_while<U>(self, f: impl FnMut(T) -> crate::option::Option<U>) -> Iter<U> {}
        pub fn flat_map<U, I>(self, f: impl FnMut(T) -> I) -> Iter<U> where I: IntoIterator<Item = U> {}
        pub fn enumerate(self) -> Iter<(usize, T)> {} pub fn zip<U>(self, other: impl IntoIterator<Item = U>) -> Iter<(T, U)> {} pub fn chain(self, other: impl IntoIterator<Item = T>) -> Iter<T> {} pub fn rev(self) -> Iter<T> {} pub fn skip(self, n: usize) -> Iter<T> {} pub fn take(self, n: usize) -> Iter<T> {} pub fn step_by(self, n: usize) -> Iter<T> {} pub fn skip_while(self, f: impl FnMut(&T) -> bool) -> Iter<T> {} pub fn take_while(self, f: impl FnMut(&T) -> bool) -> Iter<T> {} pub fn peekable(self) -> Iter<T> {} pub fn fuse(self) -> Iter<T> {} pub fn by_ref(&mut self) -> &mut Iter<T> {} pub fn inspect(self, f: impl FnMut(&T)) -> Iter<T> {} pub fn cycle(self) -> Iter<T> {} pub fn into_iter(self) -> Iter<T> {} pub fn scan<S, U>(self, state: S, f: impl FnMut(&mut S, T) -> crate::option::Option<U>) -> Iter<U> {}
        pub fn for_each(self, f: impl FnMut(T)) {} pub fn try_for_each<R>(&mut self, f: impl FnMut(T) -> R) -> R {} pub fn all(&mut self, f: impl FnMut(T) -> bool) -> bool {} pub fn any(&mut self, f: impl FnMut(T) -> bool) -> bool {} pub fn find(&mut self, f: impl FnMut(&T) -> bool) -> crate::option::Option<T> {} pub fn position(&mut self, f: impl FnMut(T) -> bool) -> crate::option::Option<usize> {} pub fn fold<B>(self, init: B, f: impl FnMut(B, T) -> B) -> B {} pub fn try_fold<B, R>(&mut self, init: B, f: impl FnMut(B, T) -> R) -> R {} pub fn reduce(self, f: impl FnMut(T, T) -> T) -> crate::option::Option<T> {}
        pub fn count(self) -> usize {} pub fn last(self) -> crate::option::Option<T> {} pub fn nth(&mut self, n: usize) -> crate::option::Option<T> {} pub fn max(self) -> crate::option::Option<T> {} pub fn min(self) -> crate::option::Option<T> {} pub fn max_by_key<K>(self, f: impl FnMut(&T) -> K) -> crate::option::Option<T> {} pub fn min_by_key<K>(self, f: impl FnMut(&T) -> K) -> crate::option::Option<T> {} pub fn max_by(self, f: impl FnMut(&T, &T) -> crate::cmp::Ordering) -> crate::option::Option<T> {} pub fn min_by(self, f: impl FnMut(&T, &T) -> crate::cmp::Ordering) -> crate::option::Option<T> {}
        pub fn collect<C>(self) -> C {} pub fn sum<S>(self) -> S {} pub fn product<S>(self) -> S {} pub fn partition<C>(self, f: impl FnMut(&T) -> bool) -> (C, C) {}
        pub fn len(&self) -> usize {}
    }
    impl<T> Iter<&T> { pub fn cloned(self) -> Iter<T> {} pub fn copied(self) -> Iter<T> {} }
    impl<T> Iter<crate::option::Option<T>> { pub fn flatten(self) -> Iter<T> {} }
    impl<T> Iter<crate::vec::Vec<T>> { pub fn flatten(self) -> Iter<T> {} }
    impl<T, E> Iter<crate::result::Result<T, E>> { pub fn flatten(self) -> Iter<T> {} }
    impl<A, B> Iter<(A, B)> { pub fn unzip<X, Y>(self) -> (X, Y) {} }
}
pub mod thread { pub struct JoinHandle<T>(T); pub fn spawn<T>(f: impl FnOnce() -> T) -> JoinHandle<T> {} impl<T> JoinHandle<T> { pub fn join(self) -> crate::result::Result<T, crate::boxed::Box<u8>> {} } }
pub mod future { pub trait Future { type Output; } }
"#;
