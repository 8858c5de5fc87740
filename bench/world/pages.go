package world

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pageSize is how many objects the runtimes ask for at once.
const pageSize = 500

// span is the objects from one number up to another.
type span struct{ from, to int }

// NewPagedReplay returns a server of n objects that has no streaming lists.
func NewPagedReplay(kind Kind, n int) (*Replay, error) {
	r := &Replay{kind: kind, n: n, paged: true}
	f, err := r.begin()
	for from := 0; err == nil && from < n; from += pageSize {
		_, err = r.page(f, span{from, min(from+pageSize, n)})
	}
	return r, err
}

// list answers with a page. The token to continue with is the number of the next
// object. The caller holds mu.
func (r *Replay) list(req *http.Request, f *film) (*http.Response, error) {
	query := req.URL.Query()
	s := span{0, r.n}
	if limit, err := strconv.Atoi(query.Get("limit")); err == nil && limit > 0 {
		s.from, _ = strconv.Atoi(query.Get("continue"))
		s.to = min(s.from+limit, r.n)
	}
	page, err := r.page(f, s)
	return response(req, http.StatusOK, f.media.MediaType, io.NopCloser(bytes.NewReader(page))), err
}

// page returns a page of a list.
func (r *Replay) page(f *film, s span) ([]byte, error) {
	if page, ok := f.pages[s]; ok {
		return page, nil
	}
	kinds, _, err := Scheme.ObjectKinds(r.kind.Make(0))
	if err != nil {
		return nil, err
	}
	list, err := Scheme.New(kinds[0].GroupVersion().WithKind(kinds[0].Kind + "List"))
	if err != nil {
		return nil, err
	}
	objs := make([]runtime.Object, 0, s.to-s.from)
	for i := s.from; i < s.to; i++ {
		objs = append(objs, r.kind.Served(i, strconv.Itoa(firstVersion+i)))
	}
	if err := meta.SetList(list, objs); err != nil {
		return nil, err
	}
	about := list.(metav1.ListInterface)
	about.SetResourceVersion(strconv.Itoa(firstVersion + r.n))
	if s.to < r.n {
		about.SetContinue(strconv.Itoa(s.to))
	}
	var encoded bytes.Buffer
	err = encode(f.media.Serializer, list, &encoded)
	f.pages[s] = encoded.Bytes()
	return f.pages[s], err
}
