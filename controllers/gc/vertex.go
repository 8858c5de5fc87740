package gc

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// id identifies an object by its UID in 16 bytes: by the bytes of a UUID, or else by a hash.
type id [16]byte

// idOf returns the id of a UID, and whether [id.uuid] returns the UID.
func idOf(uid types.UID) (key id, isUUID bool) {
	if len(uid) == 36 && uid[8] == '-' && uid[13] == '-' && uid[18] == '-' && uid[23] == '-' {
		isUUID = true
		at := 0
		for i := range key {
			if at == 8 || at == 13 || at == 18 || at == 23 {
				at++
			}
			high, low := digit(uid[at]), digit(uid[at+1])
			key[i] = high<<4 | low
			isUUID = isUUID && high < 16 && low < 16
			at += 2
		}
	}
	if !isUUID {
		hash := sha256.Sum256([]byte(uid))
		copy(key[:], hash[:])
	}
	return key, isUUID
}

// digit returns the value of a hexadecimal digit in lower case, or 255.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

// uuid returns the id as a UUID.
func (k id) uuid() types.UID {
	var text [36]byte
	hex.Encode(text[:8], k[:4])
	hex.Encode(text[9:13], k[4:6])
	hex.Encode(text[14:18], k[6:8])
	hex.Encode(text[19:23], k[8:10])
	hex.Encode(text[24:], k[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return types.UID(text[:])
}

// place is the kind and the namespace of objects, which share it.
type place struct {
	kind      schema.GroupVersionKind
	namespace string
}

// shared is a place, and the fields that its objects share.
type shared struct {
	place
	objects    int      // the number of vertices
	finalizers []string // of the last object that had any
}

// vertex is an object in the graph. There is one for each object of the cluster, so a vertex is small: most objects have neither
// owners nor finalizers.
type vertex struct {
	id       id
	name     string
	revision uint64 // the resource version, or zero if that is no number
	at       *shared
	more     *more // nil for none
	// beingDeleted and unverified are the fields of node.
	beingDeleted, unverified bool
	// mustOrphan is set from the deletion with the finalizer orphan until the dependents are orphaned, also if somebody removes
	// the finalizer.
	mustOrphan bool
}

// more has the fields that few objects have. It is immutable.
type more struct {
	owners          []*metav1.OwnerReference // dependents of an owner share references
	finalizers      []string
	uid             types.UID // unless it is a UUID
	resourceVersion string    // unless it is a number
}

var none more

// rest returns the fields that few objects have.
func (v *vertex) rest() *more {
	if v.more == nil {
		return &none
	}
	return v.more
}

func (v *vertex) uid() types.UID {
	if uid := v.rest().uid; uid != "" {
		return uid
	}
	return v.id.uuid()
}

// node returns the vertex as a node, which the caller must not change.
func (v *vertex) node() node {
	r := v.rest()
	n := node{uid: v.uid(), kind: v.at.kind, namespace: v.at.namespace, name: v.name, resourceVersion: r.resourceVersion,
		finalizers: r.finalizers, beingDeleted: v.beingDeleted, unverified: v.unverified}
	if v.revision > 0 {
		n.resourceVersion = strconv.FormatUint(v.revision, 10)
	}
	for _, ref := range r.owners {
		n.ownerReferences = append(n.ownerReferences, *ref)
	}
	return n
}

func (v *vertex) isDeletingDependents() bool {
	return v.beingDeleted && slices.Contains(v.rest().finalizers, metav1.FinalizerDeleteDependents)
}

func (v *vertex) isOrphaningDependents() bool {
	return v.beingDeleted && slices.Contains(v.rest().finalizers, metav1.FinalizerOrphanDependents)
}

// isReferredToBy reports whether ref, in an object in that namespace, refers to v.
//
//upstream:pkg/controller/garbagecollector.ownerReferenceMatchesCoordinates
func (v *vertex) isReferredToBy(ref *metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	key, _ := idOf(ref.UID)
	return err == nil && v.id == key && v.name == ref.Name && v.at.kind.Group == gv.Group && v.at.kind.Kind == ref.Kind &&
		v.canOwnIn(namespace)
}

// canOwnIn reports whether v can own objects in a namespace, or cluster-scoped ones if that is "".
func (v *vertex) canOwnIn(namespace string) bool {
	return v.at.namespace == "" || v.at.namespace == namespace
}

// set gives a vertex the state of a node. It retains no memory of the node.
func (g *graph) set(v *vertex, n *node) {
	if at := (place{n.kind, n.namespace}); v.at == nil || v.at.place != at {
		g.leave(v)
		v.at = g.enter(at)
	}
	if v.name != n.name {
		v.name = strings.Clone(n.name)
	}
	r := more{}
	v.revision, r.resourceVersion = 0, ""
	if v.revision = parseRevision(n.resourceVersion); v.revision == 0 {
		r.resourceVersion = strings.Clone(n.resourceVersion)
	}
	if _, isUUID := idOf(n.uid); !isUUID {
		r.uid = types.UID(strings.Clone(string(n.uid)))
	}
	v.beingDeleted = n.beingDeleted
	if v.unverified != n.unverified {
		g.setUnverified(v, n.unverified)
	}
	r.finalizers = v.at.share(n.finalizers)
	if len(n.ownerReferences) > 0 {
		r.owners = make([]*metav1.OwnerReference, len(n.ownerReferences))
		for i := range n.ownerReferences {
			r.owners[i] = g.share(&n.ownerReferences[i])
		}
	}
	v.more = nil
	if len(r.owners) > 0 || len(r.finalizers) > 0 || r.uid != "" || r.resourceVersion != "" {
		v.more = &r
	}
}

// parseRevision returns a resource version as a positive number, or zero if it is none.
func parseRevision(version string) uint64 {
	revision, err := strconv.ParseUint(version, 10, 64)
	if err != nil || version[0] == '0' {
		return 0
	}
	return revision
}

// enter adds an object to a place.
func (g *graph) enter(at place) *shared {
	s := g.places[at]
	if s == nil {
		at.namespace = strings.Clone(at.namespace)
		s = &shared{place: at}
		g.places[at] = s
	}
	s.objects++
	return s
}

// leave removes an object from its place, if it has one.
func (g *graph) leave(v *vertex) {
	if v.at == nil {
		return
	}
	if v.at.objects--; v.at.objects == 0 {
		delete(g.places, v.at.place)
	}
}

// share returns a copy of finalizers, which is the one of another object if that has the same.
func (s *shared) share(finalizers []string) []string {
	if len(finalizers) == 0 {
		return nil
	}
	if !slices.Equal(s.finalizers, finalizers) {
		s.finalizers = make([]string, len(finalizers))
		for i, f := range finalizers {
			s.finalizers[i] = strings.Clone(f)
		}
	}
	return s.finalizers
}

// owned are the dependents of an owner, whether or not that is in the graph.
type owned struct {
	dependents vertices
	// references are different references to the owner, which dependents share. There may be others.
	references []*metav1.OwnerReference
}

// maxShared is the maximum number of references to an owner that dependents share. Usually all references are the same.
const maxShared = 4

// share returns a copy of a reference, which is the one of another dependent if that has the same.
func (g *graph) share(ref *metav1.OwnerReference) *metav1.OwnerReference {
	key, _ := idOf(ref.UID)
	o := g.dependents[key]
	if o == nil {
		o = &owned{}
		g.dependents[key] = o
	}
	for _, shared := range o.references {
		if sameReference(*shared, *ref) && equalFlag(shared.Controller, ref.Controller) && equalFlag(shared.BlockOwnerDeletion, ref.BlockOwnerDeletion) {
			return shared
		}
	}
	own := &metav1.OwnerReference{APIVersion: strings.Clone(ref.APIVersion), Kind: strings.Clone(ref.Kind), Name: strings.Clone(ref.Name),
		UID: types.UID(strings.Clone(string(ref.UID))), Controller: flag(ref.Controller), BlockOwnerDeletion: flag(ref.BlockOwnerDeletion)}
	if len(o.references) < maxShared {
		o.references = append(o.references, own)
	}
	return own
}

func equalFlag(a, b *bool) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// flag returns a pointer to an immutable bool with the value of f, or nil.
func flag(f *bool) *bool {
	switch {
	case f == nil:
		return nil
	case *f:
		return &yes
	}
	return &no
}

var yes, no = true, false

// fewVertices is the number of vertices up to which a set is a slice.
const fewVertices = 8

// vertices is a set of vertices. The zero value is empty.
type vertices struct {
	few  []*vertex
	many map[*vertex]struct{} // if not nil, instead of few
}

func (s *vertices) add(v *vertex) {
	switch {
	case s.many != nil:
		s.many[v] = struct{}{}
	case slices.Contains(s.few, v):
	case len(s.few) < fewVertices:
		s.few = append(s.few, v)
	default:
		s.many = map[*vertex]struct{}{v: {}}
		for _, other := range s.few {
			s.many[other] = struct{}{}
		}
		s.few = nil
	}
}

func (s *vertices) remove(v *vertex) {
	if s.many != nil {
		delete(s.many, v)
		return
	}
	if i := slices.Index(s.few, v); i >= 0 {
		s.few = slices.Delete(s.few, i, i+1)
	}
}

func (s *vertices) len() int { return len(s.few) + len(s.many) }

func (s *vertices) all() iter.Seq[*vertex] {
	if s.many != nil {
		return maps.Keys(s.many)
	}
	return slices.Values(s.few)
}
