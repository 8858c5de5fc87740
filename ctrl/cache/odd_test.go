package cache

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
)

// TestOddServers sends events that no server should send to the watches of several partitions and
// representations, while listeners come and go and informers are removed. Whatever arrives, nothing
// panics, and the next list makes up for it.
func TestOddServers(t *testing.T) {
	for seed := range uint64(20) {
		withServer(t, func(t *testing.T, s *server) {
			random := rand.New(rand.NewPCG(1, seed))
			oneOf := func(all ...string) string { return all[random.IntN(len(all))] }
			opts := Options{}
			if seed%2 == 0 {
				opts.DefaultNamespaces = map[string]Config{"a": {}, AllNamespaces: {}}
			}
			c := newTestCache(t, s, opts)
			startCache(t, c)
			kinds := []client.Object{&corev1.ConfigMap{}, &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			}}
			stop := make(chan struct{})
			var group sync.WaitGroup
			for _, kind := range kinds {
				group.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						i, err := c.GetInformer(t.Context(), kind, BlockUntilSynced(false))
						if err != nil {
							t.Error(err)
							return
						}
						r, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
						switch n % 3 {
						case 0:
							if err == nil {
								_ = i.RemoveEventHandler(r)
							}
						case 1:
							_ = c.RemoveInformer(t.Context(), kind)
						}
						time.Sleep(time.Millisecond) // virtual
					}
				})
			}
			for range 200 {
				obj := configMap(oneOf("a", "b", "", "third"), oneOf("cm-0", "cm-1", "x", ""), "number", oneOf("1", "2"))
				obj.UID = types.UID(oneOf("", "u", "v"))
				obj.ResourceVersion = oneOf("", "0", "odd", "-1", fmt.Sprint(random.IntN(30)))
				switch random.IntN(12) {
				case 0:
					s.EndWith(apierrors.NewResourceExpired("too old"))
				case 1:
					s.Break(io.EOF)
				case 2:
					s.breakWatches(oneOf("", "{", "null\n", `{"type":"ADDED"}`+"\n", `{"type":"ODD","object":{}}`+"\n"))
				case 3:
					s.Bookmark()
				case 4:
					s.SendEvent(watch.Bookmark, obj)
				default:
					s.SendEvent([]watch.EventType{watch.Added, watch.Modified, watch.Deleted}[random.IntN(3)], obj)
				}
				_ = c.List(t.Context(), &corev1.ConfigMapList{}, client.MatchingLabels{"number": "1"})
				if random.IntN(4) == 0 {
					time.Sleep(time.Millisecond) // virtual
				}
			}
			close(stop)
			group.Wait()
			s.Do(func() { s.Version = 100 })
			s.EndWith(apierrors.NewResourceExpired("too old"))
			time.Sleep(time.Minute) // virtual
			synctest.Wait()
			expect(t, names(t, c, client.MatchingLabels{"number": "1"}), "a/cm-1 b/cm-1 c/cm-1")
		})
	}
}
