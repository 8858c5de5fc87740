// Package compact keeps Go values of API types in a fraction of their memory, and makes values of
// them again, in less time than a deep copy takes, short slices and maps of plain values excepted.
//
// A packed value is a few hundred bytes without pointers, which the garbage collector does not
// scan: the fields that are set, one after the other, with numbers of variable length. The parts
// that values have in common are interned, and a packed value has only their IDs: strings, such as
// images and names of owners, and whole subtrees, such as the containers of all pods of one template.
// A subtree that many values share has a Go value too, the prototype, so unpacking copies it in a few
// moves. A part is interned only if its entry saves more than it costs, so a few values of a kind take
// no more than if each was the only one. Unpacking makes a value that only the caller refers to. It
// allocates no strings. They are immutable, and so are shared, and kept in memory in small parts, so
// that a string that a reader keeps does not keep the whole value. The text of managed fields is
// shared too, because apimachinery replaces it and never writes into it.
//
// An unpacked value is equal to the packed one in every field, exported or not, down to the difference
// between nil and empty and to the bits of NaNs. So a program that compares or hashes an object gets
// the same result before the object is packed and after it is unpacked. A value with a part that
// cannot be restored is not packed: functions, channels, interfaces except in unstructured content,
// unexported fields of types that this package does not know, maps by pointers, times with a monotonic
// clock reading or in a zone with a history, nesting of more than a thousand levels. Only one fact is
// lost: which pointers point to the same variable.
//
// A long slice or map of plain values, such as numbers, is copied in less time than it is unpacked.
// So, unless it is interned, it is kept as a Go value within the packed one, and a value with a very
// long slice is not packed. A value with other slow slices or maps says so, and its user may keep a Go
// value to copy.
//
// # Layers
//
// From the bottom: package arena allocates, and package intern holds the shared parts. Here, an
// encoder and a decoder write and read the sections of a value (value.go, encode.go, decode.go). Each
// Go type has a codec, which calls them (codec.go and the files after it; builder.go builds codecs,
// prototype.go copies). The packer chooses the parts to intern (admission.go, write.go, sketch.go,
// packer.go). A view unpacks (view.go). References go downward only, and a test checks that.
// FORMAT.md describes the bytes.
//
// # Concurrency
//
// A Packer is used by one goroutine at a time, and so is an Unpacker. A View may be used by many at
// once, also while the packer goes on.
package compact
