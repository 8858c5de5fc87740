package wire

import (
	"iter"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl/client"
)

// Page is a page of a list.
type Page struct {
	// Version is the resource version of the list. Next is the continue token of the next page, empty
	// for the last one.
	Version, Next string
	// Objects decodes the objects and yields them in the order of the list, up to the first that
	// cannot be decoded. The caller owns them. It can be iterated once.
	Objects iter.Seq2[client.Object, error]
}

// page returns the page in a response body, or nil if the list does not have the usual layout.
func (e *encoding) page(data []byte) *Page {
	l, ok := e.splitList(data)
	if want := e.resource.ListKind.Kind; !ok || l.apiVersion != e.listAPIVersion ||
		l.kind != want && (want != "" || !strings.HasSuffix(l.kind, "List")) {
		return nil
	}
	return &Page{Version: l.metadata.ResourceVersion, Next: l.metadata.Continue, Objects: e.decodeItems(l)}
}

// decodedPage returns a page of a decoded list.
func decodedPage(list client.ObjectList) *Page {
	objects := func(yield func(client.Object, error) bool) {
		stopped := false
		// With a copy of its own, an object does not keep the whole page in memory.
		err := meta.EachListItemWithAlloc(list, func(obj apiruntime.Object) error {
			stopped = stopped || !yield(obj.(client.Object), nil)
			return nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
	return &Page{Version: list.GetResourceVersion(), Next: list.GetContinue(), Objects: objects}
}

// decodeItems decodes the items of a list on several goroutines and yields them in order.
func (e *encoding) decodeItems(l encodedList) iter.Seq2[client.Object, error] {
	return func(yield func(client.Object, error) bool) {
		batches, stop := make(chan *itemBatch, runtime.GOMAXPROCS(0)), make(chan struct{})
		go e.decodeBatches(l, batches, stop)
		defer func() {
			close(stop)
			for b := range batches {
				<-b.decoded
			}
		}()
		for b := range batches {
			<-b.decoded
			for _, obj := range b.objects {
				if !yield(obj, nil) {
					return
				}
			}
			if b.err != nil {
				yield(nil, b.err)
				return
			}
		}
	}
}

// itemBatch is a range of the items of a list and the objects decoded from them.
type itemBatch struct {
	items   [][]byte
	objects []client.Object
	err     error
	decoded chan struct{}
}

// decodeBatches sends all items in batches, each while it is being decoded.
func (e *encoding) decodeBatches(l encodedList, to chan<- *itemBatch, stop <-chan struct{}) {
	defer close(to)
	for items := l.items; len(items) > 0; {
		n, size := 0, 0
		for n < len(items) && size < minParallel {
			size += len(items[n])
			n++
		}
		b := &itemBatch{items: items[:n], decoded: make(chan struct{})}
		items = items[n:]
		select {
		case to <- b:
		case <-stop:
			return
		}
		go func() {
			defer close(b.decoded)
			b.err = e.decodeBatch(b, l.apiVersion, l.kind)
		}()
	}
}

func (e *encoding) decodeBatch(b *itemBatch, listVersion, listKind string) error {
	b.objects = make([]client.Object, 0, len(b.items))
	for _, item := range b.items {
		obj := e.resource.New()
		if err := e.decodeItem(item, obj); err != nil {
			return err
		}
		// The items of a list may lack apiVersion and kind.
		if u, ok := obj.(*unstructured.Unstructured); ok && u.GetKind() == "" && u.GetAPIVersion() == "" {
			u.SetKind(strings.TrimSuffix(listKind, "List"))
			u.SetAPIVersion(listVersion)
		}
		b.objects = append(b.objects, obj)
	}
	return nil
}
