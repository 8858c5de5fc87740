package store

import (
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/cache/internal/compact"
)

// packing packs the objects of a store. Only the writer uses it.
type packing struct {
	packer *compact.Packer
	// kind is the Go type of the packed objects, nil before the first one.
	kind *kind
	// size is the size of the packed values in bytes.
	size int
	// shareAll keeps a Go value beside each packed one.
	shareAll bool
}

// publish makes a state ready for readers: it packs the object, if it can be packed.
func (p *packing) publish(key *Key, st *state) {
	if st == nil || st.published {
		return
	}
	st.published = true
	obj := st.decoded.Load().object
	if typ := reflect.TypeOf(obj).Elem(); p.kind == nil {
		p.kind = &kind{typ, compact.TypeOf(typ)}
	} else if typ != p.kind.typ {
		return
	}
	header := append(make([]string, 0, 16), string(st.uid), obj.GetResourceVersion())
	for key, value := range obj.GetLabels() {
		header = append(header, key, value)
	}
	value, ok := p.packer.Pack(given(key), header, p.kind.packed, obj)
	if !ok {
		return
	}
	st.value = value
	p.size += value.Size()
	// From here on the record keeps nothing of the object.
	h := p.packer.View().Header(value)
	uid, _ := h.Next()
	st.uid = types.UID(uid)
	st.decoded.Store(nil)
	if p.shareAll {
		st.decoded.Store(&decoded{object: (Object{key: key, state: st, kind: p.kind, view: p.packer.View()}).unpacked()})
	}
}

// release ends the use of a state that is in no record any more.
func (p *packing) release(st *state) {
	if st != nil {
		p.packer.Release(st.value)
		p.size -= st.value.Size()
	}
}

// given returns the strings of an object that its record has, so that its packed value need not.
func given(key *Key) []string { return []string{key.Namespace, key.Name} }
