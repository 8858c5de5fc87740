package observe

import (
	"encoding/binary"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/internal/cause"
)

// packed is the record of an earlier reconcile: its causes, its outcome with at most maxMessage bytes of the error, and its writes
// without the objects, in some 60 bytes for each write. It has no reads and no log lines. It has the UIDs of deletions alone: the
// console finds a deletion by the UID, and any other write by the version.
type packed struct {
	text  string
	other any // the request, if it is no reconcile.Request
	size  int64
}

// maxPacked is the number of packed records: a page that shows the origins of causes reads all of them. They are the last ten minutes of an
// operator with 50 reconciles a second.
const maxPacked = 30_000

var recordSize = int(reflect.TypeFor[packed]().Size())

// vocabulary numbers the words and kinds of packed records. A manager has few of them: verbs, subresources, results and kinds.
type vocabulary struct {
	reading
	wordNumbers map[string]int
	kindNumbers map[schema.GroupVersionKind]int
	text        []byte // of the last record that was packed
}

// reading has the words and kinds by their numbers. Its slices only grow, so a copy reads all records that there were.
type reading struct {
	words []string
	kinds []*Type
}

// word returns the number of a word.
func (v *vocabulary) word(word string) int64 {
	n, ok := v.wordNumbers[word]
	if !ok {
		if v.wordNumbers == nil {
			v.wordNumbers = map[string]int{}
		}
		n = len(v.words)
		v.wordNumbers[word], v.words = n, append(v.words, word)
	}
	return int64(n)
}

// kind returns the number of a kind.
func (v *vocabulary) kind(gvk schema.GroupVersionKind) int64 {
	n, ok := v.kindNumbers[gvk]
	if !ok {
		if v.kindNumbers == nil {
			v.kindNumbers = map[schema.GroupVersionKind]int{}
		}
		n = len(v.kinds)
		v.kindNumbers[gvk], v.kinds = n, append(v.kinds, &Type{GVK: gvk})
	}
	return int64(n)
}

// packer packs a record.
type packer struct {
	*vocabulary
	namespace string // of the request
	text      []byte
}

func (p *packer) number(n int64) { p.text = binary.AppendVarint(p.text, n) }

func (p *packer) string(s string) {
	p.number(int64(len(s)))
	p.text = append(p.text, s...)
}

// flags packs up to three booleans, which [unpacker.flags] reads.
func (p *packer) flags(flags ...bool) {
	var b byte
	for i, flag := range flags {
		if flag {
			b |= 1 << i
		}
	}
	p.text = append(p.text, b)
}

// name packs a name: its namespace too, if the request has another one.
func (p *packer) name(name types.NamespacedName) {
	p.flags(name.Namespace == p.namespace)
	if name.Namespace != p.namespace {
		p.string(name.Namespace)
	}
	p.string(name.Name)
}

// pack packs the record of a reconcile that has ended. The caller holds run.mu, and guards the vocabulary.
func (v *vocabulary) pack(run *Run) packed {
	p := &packer{vocabulary: v, namespace: run.Name.Namespace, text: v.text[:0]}
	p.number(int64(run.ID))
	p.string(run.Name.Namespace)
	p.string(run.Name.Name)
	p.flags(run.outcome.Conflict)
	p.number(int64(run.Priority))
	p.number(run.Started.UnixNano())
	p.number(int64(run.outcome.Took))
	p.number(int64(run.outcome.After))
	p.number(p.word(run.outcome.Result))
	p.string(clip(run.outcome.Err, maxMessage))
	p.number(int64(run.Causes.Total))
	p.number(int64(run.Causes.Waited))
	p.number(int64(len(run.Causes.List)))
	for i := range run.Causes.List {
		p.cause(&run.Causes.List[i])
	}
	p.number(int64(run.dropped[aWrite]))
	p.number(int64(len(run.writes)))
	for i := range run.writes {
		p.write(&run.writes[i])
	}
	v.text = p.text
	// An allocation rounds the size of a text up by at most an eighth, and append the size of the slice of records by a quarter.
	size := recordSize + recordSize/4 + len(p.text) + len(p.text)/8 + run.otherSize
	return packed{string(p.text), run.other, int64(size)}
}

func (p *packer) cause(c *cause.Cause) {
	p.number(int64(c.Kind))
	p.name(c.Object)
	p.number(p.kind(c.GVK))
	p.string(c.ResourceVersion)
	p.string(c.Changed)
	if c.Kind == cause.Deleted {
		p.string(string(c.UID))
	}
}

func (p *packer) write(w *Write) {
	p.flags(w.DryRun, w.Guessed, w.Version == w.Was)
	p.number(int64(w.At))
	p.number(int64(w.Took))
	p.number(p.word(w.Verb))
	p.number(p.word(w.SubResource))
	p.number(p.kind(w.Type.GVK))
	p.name(w.Key)
	p.string(w.Version)
	p.string(w.Err)
	if w.Deletes() {
		p.string(string(w.UID))
	}
}

// unpacker reads a packed record.
type unpacker struct {
	reading
	namespace string
	text      string
}

func (u *unpacker) number() int64 {
	// The longest number has ten bytes.
	n, length := binary.Varint([]byte(u.text[:min(len(u.text), binary.MaxVarintLen64)]))
	u.text = u.text[length:]
	return n
}

func (u *unpacker) duration() time.Duration { return time.Duration(u.number()) }

func (u *unpacker) string() string {
	n := u.number()
	s := u.text[:n]
	u.text = u.text[n:]
	return s
}

func (u *unpacker) word() string { return u.words[u.number()] }

func (u *unpacker) flags() (a, b, c bool) {
	flags := u.text[0]
	u.text = u.text[1:]
	return flags&1 != 0, flags&2 != 0, flags&4 != 0
}

func (u *unpacker) name() (name types.NamespacedName) {
	name.Namespace = u.namespace
	if same, _, _ := u.flags(); !same {
		name.Namespace = u.string()
	}
	name.Name = u.string()
	return name
}

// unpack returns the record of a reconcile of a controller. Its strings are parts of the packed record.
func (r reading) unpack(p packed, controller string) *Run {
	u := &unpacker{reading: r, text: p.text}
	run := &Run{Packed: true, Controller: controller, ID: uint64(u.number()), other: p.other}
	run.Name.Namespace = u.string()
	u.namespace = run.Name.Namespace
	run.Name.Name = u.string()
	run.outcome.Conflict, _, _ = u.flags()
	run.Priority = int(u.number())
	run.Started = time.Unix(0, u.number())
	run.outcome.Ended = true
	run.outcome.Took, run.outcome.After = u.duration(), u.duration()
	run.outcome.Result, run.outcome.Err = u.word(), u.string()
	run.Causes.Total, run.Causes.Waited = int(u.number()), u.duration()
	run.Causes.List = make([]cause.Cause, u.number())
	for i := range run.Causes.List {
		u.cause(&run.Causes.List[i])
	}
	run.dropped[aWrite] = int(u.number())
	run.writes = make([]Write, u.number())
	for i := range run.writes {
		u.write(&run.writes[i])
	}
	return run
}

func (u *unpacker) cause(c *cause.Cause) {
	c.Kind = cause.Kind(u.number())
	c.Object = u.name()
	c.GVK = u.kinds[u.number()].GVK
	c.ResourceVersion, c.Changed = u.string(), u.string()
	if c.Kind == cause.Deleted {
		c.UID = types.UID(u.string())
	}
}

func (u *unpacker) write(w *Write) {
	var nothing bool
	w.Packed = true
	w.DryRun, w.Guessed, nothing = u.flags()
	w.At, w.Took = u.duration(), u.duration()
	w.Verb, w.SubResource, w.Type = u.word(), u.word(), u.kinds[u.number()]
	w.Key = u.name()
	w.Version, w.Err = u.string(), u.string()
	if nothing {
		w.Was = w.Version
	}
	if w.Deletes() {
		w.UID = types.UID(u.string())
	}
}
