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
//
// # Interning
//
// An entry of the intern table costs memory too, and most values that occur twice do not occur a fifth time. So the
// cost of entries that have not paid off yet is limited to 16 KiB and a small share of the objects' size. Frequent
// values are interned from the second object on. Entries without references are freed. A prototype has all variables of
// a subtree in one struct of a type made for it, so a copy of it is one allocation, one move and a few relocated
// pointers. Other values are decoded into the struct of the reader.
//
// # Slices and maps
//
// A map with 64 elements or more is kept as a Go value within the packed object. An object with a slice of 256 elements
// or more that takes longer to decode than to copy is not packed. An object with shorter slices of this sort, of 64
// elements or more, is packed, and also has a decoded value as long as it is read every few minutes, unless the slices
// are a small part of it. A shorter slice of values that no other object has takes up to 2.8 times as long to read as
// to copy: 2.2 µs and not 0.8 for 63 pairs of numbers.
//
//	go test ./ctrl/cache/internal/compact -run Ratios -ratios -v
//
// measures unpacking against deep copies for each slice and map type of core/v1, apps/v1, batch/v1 and
// apiextensions/v1. On 2026-11-27, beside other load, none of the rows of 64, 255 and 3,000 elements was above 1.0, and
// 175 of the 210 rows of 8 and 63 elements were.
//
// # Pieces
//
// A string that a program has read keeps the memory around it alive. So a packed object is several pieces of memory:
// the UID, the resource version and the labels have their own piece, the namespace and the name belong to the record,
// and the text of a large object is in pieces of a KiB. A program can keep keys and labels without keeping objects
// alive. It must not write into the bytes of FieldsV1.GetRawBytes.
//
// # Unsafe
//
// The package relies on unsafe, and nothing else in the runtime does. A test packs, unpacks and changes every kind of
// client-go's scheme under the race detector's pointer checks.
package compact
