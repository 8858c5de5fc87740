package store_test

import (
	"context"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	apistorage "k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"flyball.dev/apiserver/store"
	"flyball.dev/internal/reserve/reservetest"
	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/etcd"
	"flyball.dev/storage/memory"
)

// These tests run k8s.io/apiserver's suite for implementations of storage.Interface, in the same way as for etcd and
// for the watch cache.

// TestUpstreamComplete checks that every function of the suite is run in this package.
func TestUpstreamComplete(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage/testing").Output()
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]bool{}
	inspect(t, ".", func(n ast.Node) {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "storagetesting" {
				run[s.Sel.Name] = true
			}
		}
	})
	functions := 0
	inspect(t, strings.TrimSpace(string(dir)), func(n ast.Node) {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Run") {
			return
		}
		functions++
		if !run[f.Name.Name] {
			t.Errorf("%s is not run", f.Name.Name)
		}
	})
	if functions < 60 {
		t.Errorf("the suite has only %d functions", functions)
	}
}

// inspect visits the syntax of the files of a directory.
func inspect(t *testing.T, dir string, visit func(ast.Node)) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has %d files: %v", dir, len(files), err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
}

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
	pb     = protobuf.NewSerializer(scheme, scheme)
	codec  = codecs.CodecForVersions(pb, pb, schema.GroupVersions{examplev1.SchemeGroupVersion}, nil)
)

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
}

var storageFlag = flag.String("storage", "memory", "the storage of upstream's suite: memory, datadir or the `file` of the program etcd")

// newBackend returns an empty storage that is closed when the test ends.
func newBackend(t testing.TB) (s storage.Store) {
	t.Helper()
	var err error
	switch *storageFlag {
	case "memory":
		s = memory.New(memory.Options{})
	case "datadir":
		s, err = datadir.Open(t.TempDir(), datadir.Options{})
	default:
		s = openEtcd(t, *storageFlag)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openEtcd starts etcd, which ends with the test, and opens the storage in it.
func openEtcd(t testing.TB, program string) storage.Store {
	t.Helper()
	urls := [2]string{"http://" + reservetest.Address(t), "http://" + reservetest.Address(t)} // for clients and for peers
	cmd := exec.Command(program, "--data-dir="+t.TempDir(), "--unsafe-no-fsync", "--listen-client-urls="+urls[0], "--advertise-client-urls="+urls[0],
		"--listen-peer-urls="+urls[1], "--initial-advertise-peer-urls="+urls[1], "--initial-cluster=default="+urls[1])
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for {
		s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: urls[:1], Prefixes: []etcd.Prefix{{}}})
		if err == nil {
			return s
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// parallel runs a test in parallel, unless the tests have processes of etcd.
func parallel(t *testing.T) {
	if *storageFlag == "memory" || *storageFlag == "datadir" {
		t.Parallel()
	}
}

// exampleStore returns a store of k8s.io/apiserver's example pods.
func exampleStore(t testing.TB) (*store.Store, storage.Store) {
	backend := newBackend(t)
	return exampleStoreOn(backend, codec), backend
}

func exampleStoreOn(backend storage.Store, codec runtime.Codec) *store.Store {
	return store.New(backend, exampleConfig(codec))
}

func exampleConfig(codec runtime.Codec) store.Config {
	return store.Config{
		Codec:  codec,
		Prefix: "/pods",
		New:    func() runtime.Object { return &example.Pod{} },
	}
}

// compact compacts the backend as the suite asks: as for etcd, where that takes a write.
func compact(backend storage.Store) storagetesting.Compaction {
	return func(ctx context.Context, t *testing.T, resourceVersion string) {
		revision, err := apistorage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
		if err == nil {
			err = backend.Compact(ctx, revision)
		}
		advance(backend)(ctx, t)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// advance makes a write that has nothing to do with the objects.
func advance(backend storage.Store) storagetesting.IncreaseRVFunc {
	return func(ctx context.Context, t *testing.T) int64 {
		r, err := backend.Put(ctx, storage.Write{Key: "other", If: storage.Any})
		if err != nil {
			t.Fatal(err)
		}
		return int64(r.Revision)
	}
}

// stored checks that stored objects have neither a resource version nor a self link.
func stored(backend storage.Store) storagetesting.KeyValidation {
	return func(ctx context.Context, t *testing.T, key string) {
		r, err := backend.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		obj, err := runtime.Decode(codecs.UniversalDecoder(), r.Value())
		if err != nil {
			t.Fatal(err)
		}
		if pod := obj.(*example.Pod); pod.ResourceVersion != "" || pod.GetSelfLink() != "" {
			t.Errorf("stored with resource version %q and self link %q", pod.ResourceVersion, pod.GetSelfLink())
		}
	}
}

func ignoreCalls(*testing.T, uint64, uint64) {}

func TestUpstream(t *testing.T) {
	suite := map[string]func(context.Context, *testing.T, apistorage.Interface){
		"CreateWithTTL":                              storagetesting.RunTestCreateWithTTL,
		"CreateWithKeyExist":                         storagetesting.RunTestCreateWithKeyExist,
		"Get":                                        storagetesting.RunTestGet,
		"UnconditionalDelete":                        storagetesting.RunTestUnconditionalDelete,
		"ConditionalDelete":                          storagetesting.RunTestConditionalDelete,
		"DeleteWithSuggestion":                       storagetesting.RunTestDeleteWithSuggestion,
		"DeleteWithSuggestionAndConflict":            storagetesting.RunTestDeleteWithSuggestionAndConflict,
		"DeleteWithConflict":                         storagetesting.RunTestDeleteWithConflict,
		"DeleteWithSuggestionOfDeletedObject":        storagetesting.RunTestDeleteWithSuggestionOfDeletedObject,
		"ValidateDeletionWithSuggestion":             storagetesting.RunTestValidateDeletionWithSuggestion,
		"ValidateDeletionWithOnlySuggestionValid":    storagetesting.RunTestValidateDeletionWithOnlySuggestionValid,
		"PreconditionalDeleteWithSuggestion":         storagetesting.RunTestPreconditionalDeleteWithSuggestion,
		"PreconditionalDeleteWithOnlySuggestionPass": storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass,
		"ListPaging":                                 storagetesting.RunTestListPaging,
		"GetListRecursivePrefix":                     storagetesting.RunTestGetListRecursivePrefix,
		"KeySchema":                                  storagetesting.RunTestKeySchema,
		"NamespaceScopedList":                        storagetesting.RunTestNamespaceScopedList,
		"GuaranteedUpdateWithTTL":                    storagetesting.RunTestGuaranteedUpdateWithTTL,
		"GuaranteedUpdateWithConflict":               storagetesting.RunTestGuaranteedUpdateWithConflict,
		"GuaranteedUpdateWithSuggestionAndConflict":  storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict,
		"Watch":                                        storagetesting.RunTestWatch,
		"ClusterScopedWatch":                           storagetesting.RunTestClusterScopedWatch,
		"NamespaceScopedWatch":                         storagetesting.RunTestNamespaceScopedWatch,
		"DeleteTriggerWatch":                           storagetesting.RunTestDeleteTriggerWatch,
		"WatchFromNonZero":                             storagetesting.RunTestWatchFromNonZero,
		"DelayedWatchDelivery":                         storagetesting.RunTestDelayedWatchDelivery,
		"WatchContextCancel":                           storagetesting.RunTestWatchContextCancel,
		"WatcherTimeout":                               storagetesting.RunTestWatcherTimeout,
		"WatchDeleteEventObjectHaveLatestRV":           storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV,
		"WatchInitializationSignal":                    storagetesting.RunTestWatchInitializationSignal,
		"OptionalWatchBookmarksWithCorrectResourceVer": storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion,
		"SendInitialEventsBackwardCompatibility":       storagetesting.RunSendInitialEventsBackwardCompatibility,
		"WatchSemantics":                               storagetesting.RunWatchSemantics,
		"WatchSemanticInitialEventsExtended":           storagetesting.RunWatchSemanticInitialEventsExtended,
		"WatchListMatchSingle":                         storagetesting.RunWatchListMatchSingle,
	}
	alone := map[string]bool{
		"Get":                                true, // has an object that lives for a second only
		"WatchSemantics":                     true, // these set feature gates
		"WatchSemanticInitialEventsExtended": true,
		"WatchListMatchSingle":               true,
	}
	for name, run := range suite {
		t.Run(name, func(t *testing.T) {
			if !alone[name] {
				parallel(t)
			}
			s, _ := exampleStore(t)
			run(t.Context(), t, s)
		})
	}
}

// TestUpstreamBackend runs the functions that access the backend.
func TestUpstreamBackend(t *testing.T) {
	suite := map[string]func(context.Context, *testing.T, *store.Store, storage.Store){
		"Create": func(ctx context.Context, t *testing.T, s *store.Store, b storage.Store) {
			storagetesting.RunTestCreate(ctx, t, s, stored(b))
		},
		"List": func(ctx context.Context, t *testing.T, s *store.Store, b storage.Store) {
			storagetesting.RunTestList(ctx, t, s, compact(b), false, nil)
		},
		"ListFromCache": func(ctx context.Context, t *testing.T, _ *store.Store, b storage.Store) {
			c := exampleConfig(codec)
			c.WatchCache = true
			storagetesting.RunTestList(ctx, t, store.New(b, c), compact(b), true, storagetesting.NewKubernetesRecorder(nil))
		},
		"ConsistentList": func(ctx context.Context, t *testing.T, s *store.Store, b storage.Store) {
			storagetesting.RunTestConsistentList(ctx, t, s, advance(b), false, true, true)
		},
		"GetListNonRecursive": func(ctx context.Context, t *testing.T, s *store.Store, b storage.Store) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, advance(b), s)
		},
		"ListContinuation": func(ctx context.Context, t *testing.T, s *store.Store, _ storage.Store) {
			storagetesting.RunTestListContinuation(ctx, t, s, ignoreCalls)
		},
		"ListContinuationWithFilter": func(ctx context.Context, t *testing.T, s *store.Store, _ storage.Store) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, s, ignoreCalls)
		},
		"ListPaginationRareObject": func(ctx context.Context, t *testing.T, s *store.Store, _ storage.Store) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, s, ignoreCalls)
		},
		"ListInconsistentContinuation": func(ctx context.Context, t *testing.T, s *store.Store, b storage.Store) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, s, compact(b))
		},
		"WatchFromZero": func(ctx context.Context, t *testing.T, s *store.Store, b storage.Store) {
			storagetesting.RunTestWatchFromZero(ctx, t, s, compact(b))
		},
		"WatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, s *store.Store, _ storage.Store) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s, true)
		},
		"CompactRevision": func(ctx context.Context, t *testing.T, s *store.Store, b storage.Store) {
			storagetesting.RunTestCompactRevision(ctx, t, s, advance(b), compact(b))
		},
		"Stats": func(ctx context.Context, t *testing.T, s *store.Store, _ storage.Store) {
			storagetesting.RunTestStats(ctx, t, s, codec, identity.NewEncryptCheckTransformer(), false)
		},
	}
	for name, run := range suite {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s, backend := exampleStore(t)
			run(t.Context(), t, s, backend)
		})
	}
}
