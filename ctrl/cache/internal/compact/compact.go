// Package compact keeps Go values of API types in a fraction of their memory, and makes values of
// them again, in less time than a deep copy takes, short slices and maps of plain values excepted.
//
// A packed value is a few hundred bytes without pointers, which the garbage collector does not
// scan: the fields that are set, one after the other, with numbers of variable length. What values
// have in common is interned, and a packed value only has its ID: strings, such as images and names
// of owners, and whole subtrees, such as the containers of all pods of one template. Of a subtree
// that many values share there is a Go value too, the prototype, so unpacking copies it in a few
// moves. A part is interned only if that is worth its cost, so a few values of a kind take no more
// than if each was the only one. Unpacking makes a value that only the caller refers to. It
// allocates no strings: they are immutable, and so are shared, and kept in memory in small parts, so
// that a string that a reader keeps does not keep the whole value. The text of managed fields is
// shared too, which apimachinery replaces and never writes into.
//
// What is unpacked is equal to what was packed, in every field, also in those that are not exported,
// down to the difference between nil and empty and to the bits of NaNs. So a program that compares
// or hashes what it reads gets the same result for an object as it was decoded and for one that was
// packed. What cannot be restored so is not packed: functions, channels, interfaces other than
// those of unstructured content, unexported fields of types that this package does not know, maps
// by pointers, times with a monotonic clock reading or in a zone with a history, what is nested
// more than a thousand times. Only which pointers point to the same variable is lost.
//
// A long slice or map of plain values, such as numbers, is copied in less time than it is unpacked.
// So one that is not interned is kept as a Go value within the packed one, and a value with a very
// long slice is not packed. A value that is slow for a slice or map that is neither says so, and its
// user may keep a Go value to copy.
//
// # Layers
//
// From the bottom: package arena allocates, package intern holds what is shared. Here, an encoder
// and a decoder read and write the sections of a value (value.go, encode.go, decode.go), a codec a
// Go type calls them (codec.go and what follows; builder.go builds them, prototype.go copies), and
// the packer decides what is interned (admission.go, write.go, sketch.go, packer.go). A view
// unpacks (view.go). References go downward only, which a test checks. FORMAT.md describes the
// bytes.
//
// # Concurrency
//
// A Packer is used by one goroutine at a time, and so is an Unpacker. A View may be used by many at
// once, also while the packer goes on.
package compact
