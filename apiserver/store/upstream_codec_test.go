package store_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// transforming is a store with a transforming codec. The etcd3 store transforms between codec and etcd.
type transforming struct {
	*store.Store
	backend storage.Store
	codec   *transformingCodec
}

// transformingCodec encodes and decodes with a transformer, like the etcd3 store.
type transformingCodec struct {
	runtime.Codec
	transformer atomic.Pointer[value.Transformer]
}

func newTransforming(t testing.TB) *transforming {
	backend := memory.New(memory.Options{})
	t.Cleanup(func() { backend.Close() })
	c := &transformingCodec{Codec: codec}
	s := &transforming{exampleStoreOn(backend, c), backend, c}
	s.swap(storagetesting.NewPrefixTransformer([]byte("prefix/"), false))
	return s
}

func (c *transformingCodec) Encode(obj runtime.Object, w io.Writer) error {
	data, err := runtime.Encode(c.Codec, obj)
	if err == nil {
		data, err = (*c.transformer.Load()).TransformToStorage(context.Background(), data, value.DefaultContext{})
	}
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

func (c *transformingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	data, _, err := (*c.transformer.Load()).TransformFromStorage(context.Background(), data, value.DefaultContext{})
	if err != nil {
		return nil, nil, err
	}
	return c.Codec.Decode(data, defaults, into)
}

// swap changes the transformer and drops decoded objects, so that they are read again.
func (s *transforming) swap(to value.Transformer) (back func()) {
	page, err := s.backend.Range(context.Background(), storage.Query{})
	if err != nil {
		panic(err)
	}
	for _, r := range page.Records {
		for range 4 { // which evict the decoded object
			r.SetCached(new(byte), true)
		}
	}
	from := s.codec.transformer.Swap(&to)
	return func() { s.codec.transformer.Store(from) }
}

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
func (s *transforming) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	changed := *(*s.codec.transformer.Load()).(*storagetesting.PrefixTransformer)
	return s.swap(modify(&changed))
}

// UpdateTransformer implements storagetesting.InterfaceWithTransformerOverride.
func (s *transforming) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return s.swap(modify(*s.codec.transformer.Load()))
}

// failing is a codec that can be made to fail decoding.
type failing struct {
	runtime.Codec
	now atomic.Bool
}

func (c *failing) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if c.now.Load() {
		return nil, nil, errors.New("cannot decode")
	}
	return c.Codec.Decode(data, defaults, into)
}

// TestUpstreamCodec runs the functions that need a codec that fails or transforms.
func TestUpstreamCodec(t *testing.T) {
	withFailing := func(run func(context.Context, testing.TB, *store.Store, func(bool))) func(*testing.T) {
		return func(t *testing.T) {
			backend, c := memory.New(memory.Options{}), &failing{Codec: codec}
			defer backend.Close()
			run(t.Context(), t, exampleStoreOn(backend, c), c.now.Store)
		}
	}
	for name, run := range map[string]func(*testing.T){
		"DeleteExpectedDecodeError": withFailing(func(ctx context.Context, t testing.TB, s *store.Store, fail func(bool)) {
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, s, fail)
		}),
		"DeleteWithConflictAndMissingExpectedDecodeError": withFailing(func(ctx context.Context, t testing.TB, s *store.Store, fail func(bool)) {
			storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, s, fail)
		}),
		"DeleteWithSuggestionAndMissingExpectedDecodeError": withFailing(func(ctx context.Context, t testing.TB, s *store.Store, _ func(bool)) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, s)
		}),
		"WatchError": func(t *testing.T) {
			storagetesting.RunTestWatchError(t.Context(), t, newTransforming(t))
		},
		"WatchErrorIsBlockingFurtherEvents": func(t *testing.T) {
			storagetesting.RunWatchErrorIsBlockingFurtherEvents(t.Context(), t, newTransforming(t))
		},
		"WatchWithUnsafeDelete": func(t *testing.T) {
			storagetesting.RunTestWatchWithUnsafeDelete(t.Context(), t, newTransforming(t), errors.New("corrupt"))
		},
	} {
		t.Run(name, run)
	}
}

// TestUpstreamProgress asks for progress of a watch that ends in 20 seconds of virtual time.
func TestUpstreamProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		s, backend := exampleStore(t)
		storagetesting.RunOptionalTestProgressNotify(ctx, t, s, advance(backend))
	})
}

// BenchmarkUpstream runs the storage benchmarks of k8s.io/apiserver at a hundredth of their size.
func BenchmarkUpstream(b *testing.B) {
	data := storagetesting.PrepareBenchmarkData(50, 30, 50)
	b.Run("WriteThroughput", func(b *testing.B) {
		s, _ := exampleStore(b)
		storagetesting.RunBenchmarkWriteThroughput(b.Context(), b, s, data, false, nil)
	})
	s, _ := exampleStore(b)
	if err := storagetesting.PrecreateBenchmarkPods(b.Context(), s, data); err != nil {
		b.Fatal(err)
	}
	b.Run("List", func(b *testing.B) { storagetesting.RunBenchmarkStoreList(b.Context(), b, s, data, false) })
	b.Run("Stats", func(b *testing.B) { storagetesting.RunBenchmarkStoreStats(b.Context(), b, s) })
}
