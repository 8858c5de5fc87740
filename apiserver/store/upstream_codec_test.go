package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// transforming is a store with a transformer that can be replaced.
type transforming struct {
	*store.Store
	backend     storage.Store
	transformer *replaceable
}

// replaceable is a transformer that passes all calls to another one.
type replaceable struct {
	to atomic.Pointer[value.Transformer]
}

func (r *replaceable) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	return (*r.to.Load()).TransformFromStorage(ctx, data, dataCtx)
}

func (r *replaceable) TransformToStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	return (*r.to.Load()).TransformToStorage(ctx, data, dataCtx)
}

func newTransforming(t testing.TB) *transforming {
	backend := newBackend(t)
	r := &replaceable{}
	s := &transforming{
		Store: store.New(backend, store.Config{Codec: codec, Prefix: "/pods", New: func() runtime.Object { return &example.Pod{} },
			Transformer: r}),
		backend: backend, transformer: r,
	}
	s.swap(storagetesting.NewPrefixTransformer([]byte("prefix/"), false))
	return s
}

// swap changes the transformer and drops decoded objects, so that they are read again.
func (s *transforming) swap(to value.Transformer) (back func()) {
	s.forget()
	from := s.transformer.to.Swap(&to)
	return func() { s.transformer.to.Store(from) }
}

// forgetting is a store that also drops decoded objects when the first transformer is back.
type forgetting struct{ *transforming }

func (s forgetting) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	back := s.transforming.UpdatePrefixTransformer(modify)
	return func() {
		s.forget()
		back()
	}
}

// forget drops the decoded objects.
func (s *transforming) forget() {
	page, err := s.backend.Range(context.Background(), storage.Query{})
	if err != nil {
		panic(err)
	}
	for _, r := range page.Records {
		for range 4 { // which evict the decoded object
			r.SetCached(new(byte), true)
		}
	}
}

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
func (s *transforming) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	changed := *(*s.transformer.to.Load()).(*storagetesting.PrefixTransformer)
	return s.swap(modify(&changed))
}

// UpdateTransformer implements storagetesting.InterfaceWithTransformerOverride.
func (s *transforming) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return s.swap(modify(*s.transformer.to.Load()))
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
			backend, c := newBackend(t), &failing{Codec: codec}
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
		"TransformationFailure": func(t *testing.T) {
			storagetesting.RunTestTransformationFailure(t.Context(), t, forgetting{newTransforming(t)})
		},
		"GetListWithErrorAggregation": func(t *testing.T) {
			storagetesting.RunTestGetListWithErrorAggregation(t.Context(), t, newTransforming(t), store.NewCorruptError(errors.New("bits flipped")))
		},
		"GetListWithoutErrorAggregation": func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, false)
			storagetesting.RunTestGetListWithoutErrorAggregation(t.Context(), t, newTransforming(t), store.NewCorruptError(errors.New("bits flipped")))
		},
		"WatchError": func(t *testing.T) {
			storagetesting.RunTestWatchError(t.Context(), t, newTransforming(t))
		},
		"WatchErrorIsBlockingFurtherEvents": func(t *testing.T) {
			storagetesting.RunWatchErrorIsBlockingFurtherEvents(t.Context(), t, newTransforming(t))
		},
		"GuaranteedUpdate": func(t *testing.T) {
			s := newTransforming(t)
			storagetesting.RunTestGuaranteedUpdate(t.Context(), t, s, func(context.Context, *testing.T, string) {})
		},
		"GuaranteedUpdateChecksStoredData": func(t *testing.T) {
			storagetesting.RunTestGuaranteedUpdateChecksStoredData(t.Context(), t, newTransforming(t))
		},
		"ListResourceVersionMatch": func(t *testing.T) {
			storagetesting.RunTestListResourceVersionMatch(t.Context(), t, newTransforming(t))
		},
		"WatchWithUnsafeDelete": func(t *testing.T) {
			storagetesting.RunTestWatchWithUnsafeDelete(t.Context(), t, newTransforming(t), store.NewCorruptError(errors.New("corrupt")))
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
		backend := memory.New(memory.Options{})
		defer backend.Close()
		s := exampleStoreOn(backend, codec)
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
