package compact

import "unsafe"

// fieldCodec is the codec of a field of a struct, or of a struct in it, with the offset of the
// field and its size.
type fieldCodec struct {
	offset, size uintptr
	codec        codec
}

// structCodec packs the fields that are not zero, each after its number, and a zero. The fields of
// structs in the struct are its own.
//
// Unsafe: the methods rely on the contract of codec, and on fields having the offsets and sizes
// that reflect.StructField gives.
type structCodec struct {
	fields []fieldCodec
	// indirect are the fields with codecs that are not plain.
	indirect []fieldCodec
}

// plainStruct is the codec of a struct without indirect fields.
//
// Unsafe: the methods rely on the contract of codec.
type plainStruct struct {
	*structCodec
	plain
}

func (s plainStruct) unalias(d *decoder, p unsafe.Pointer) { s.plain.unalias(d, p) }

// inline adds the fields of a struct that is itself a field, at an offset.
func (s *structCodec) inline(field *structCodec, offset uintptr) {
	for _, f := range field.fields {
		f.offset += offset
		s.fields = append(s.fields, f)
	}
}

func (s *structCodec) encode(e *encoder, p unsafe.Pointer) {
	for i := range s.fields {
		f := &s.fields[i]
		if v := unsafe.Add(p, f.offset); !isZero(v, f.size) {
			e.uint(uint64(i) + 1)
			f.codec.encode(e, v)
		}
	}
	e.byte(0)
}

func (s *structCodec) decode(d *decoder, p unsafe.Pointer) {
	for n := d.uint(); n > 0; n = d.uint() {
		f := &s.fields[n-1]
		f.codec.decode(d, unsafe.Add(p, f.offset))
	}
}

func (s *structCodec) unalias(d *decoder, p unsafe.Pointer) {
	for i := range s.indirect {
		f := &s.indirect[i]
		if v := unsafe.Add(p, f.offset); !isZero(v, f.size) {
			f.codec.unalias(d, v)
		}
	}
}

// isZero reports whether all bytes of a variable are zero.
//
// Unsafe: the variable has that size. Variables of eight bytes or more need not be aligned to
// eight: the platforms that Go supports read unaligned words, or the alignment is the alignment of the type.
func isZero(p unsafe.Pointer, size uintptr) bool {
	at := uintptr(0)
	for ; at+8 <= size; at += 8 {
		if *(*uint64)(unsafe.Add(p, at)) != 0 {
			return false
		}
	}
	for ; at < size; at++ {
		if *(*byte)(unsafe.Add(p, at)) != 0 {
			return false
		}
	}
	return true
}
