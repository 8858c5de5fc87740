package crd_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/storage"
)

// TestConcurrentWriters concurrently creates, changes and deletes definitions that compete for names, and their
// resources. Afterwards the served definitions must equal the stored ones, under disjoint names, and only definitions
// with conflicts may lack names.
func TestConcurrentWriters(t *testing.T) {
	const writers, writes = 16, 40
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		plurals := []string{"widgets", "gadgets", "gizmos"}
		var group sync.WaitGroup
		for writer := range writers {
			group.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(writer)))
				for i := range writes {
					plural := plurals[random.IntN(len(plurals))]
					path := definitionsPath + "/" + plural + ".example.com"
					patch := func(path, body string) answer {
						return s.do("PATCH", path, body, "Content-Type", "application/merge-patch+json")
					}
					var a answer
					switch op := random.IntN(12); op {
					case 0, 1, 2:
						body := renamed(plural, []string{"Widget", "Gadget"}[random.IntN(2)])
						a = s.do("POST", definitionsPath, body)
					case 3:
						a = s.do("POST", definitionsPath+"?dryRun=All", renamed(plural, "Widget"))
					case 4:
						a = s.do("DELETE", path, "")
					case 5:
						a = s.do("DELETE", path, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"3"}}`)
					case 6, 7:
						names := []string{fmt.Sprintf("s%d", random.IntN(3))}
						a = patch(path, fmt.Sprintf(`{"spec":{"names":{"shortNames":["%s"]}}}`, names[0]))
					case 8:
						a = patch(path+"/status", fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}},"status":{"storedVersions":["v1"]}}`, i))
					case 9:
						a = patch(path+"?dryRun=All", `{"spec":{"names":{"shortNames":["dry"]}}}`)
					default:
						a = s.do("POST", "/apis/example.com/v1/namespaces/default/"+plural, fmt.Sprintf(
							`{"apiVersion":"example.com/v1","kind":"%s","metadata":{"generateName":"x-"}}`, []string{"Widget", "Gadget"}[random.IntN(2)]))
					}
					if a.code >= 500 {
						t.Errorf("%d %s", a.code, a.body)
					}
				}
			})
		}
		group.Wait()
		synctest.Wait()
		s.checkServed(plurals)
	})
}

// checkServed compares the stored definitions with the catalog.
func (s *server) checkServed(plurals []string) {
	s.t.Helper()
	list := s.want(200, "GET", definitionsPath, "")
	stored, inUse := map[string]*unstructured.Unstructured{}, map[string]string{}
	for _, item := range list.object["items"].([]any) {
		crd := &unstructured.Unstructured{Object: item.(map[string]any)}
		stored[field(crd.Object, "spec", "names", "plural").(string)] = crd
		for _, name := range namesOf(field(crd.Object, "status", "acceptedNames")) {
			if other, ok := inUse[name]; ok {
				s.t.Errorf("%s and %s both have the name %s", other, crd.GetName(), name)
			}
			inUse[name] = crd.GetName()
		}
	}
	for _, plural := range plurals {
		r, served := s.catalog.Snapshot().Lookup(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural})
		crd := stored[plural]
		if want := crd != nil && strings.HasPrefix(condition(crd, "Established"), "True"); served != want {
			s.t.Errorf("%s is served: %t, want %t", plural, served, want)
		}
		if crd == nil {
			continue
		}
		if crd.GetDeletionTimestamp() != nil {
			s.t.Errorf("%s is still terminating", crd.GetName())
		}
		if accepted := field(crd.Object, "status", "acceptedNames", "kind"); served && r.Kind.Kind != accepted {
			s.t.Errorf("%s is served with the kind %s, want %s", plural, r.Kind.Kind, accepted)
		}
		wanted := field(crd.Object, "spec", "names")
		has := cmp.Equal(wanted, field(crd.Object, "status", "acceptedNames"))
		blocked := slices.ContainsFunc(namesOf(wanted), func(name string) bool {
			owner, ok := inUse[name]
			return ok && owner != crd.GetName()
		})
		if has == blocked || strings.HasPrefix(condition(crd, "NamesAccepted"), "True") != has {
			s.t.Errorf("%s has its names: %t, others have them: %t, NamesAccepted: %s", crd.GetName(), has, blocked, condition(crd, "NamesAccepted"))
		}
	}
}

// namesOf returns the names in a definition's spec or status.
func namesOf(names any) (all []string) {
	n, _ := names.(map[string]any)
	for _, key := range []string{"plural", "singular", "kind", "listKind"} {
		if name, _ := n[key].(string); name != "" {
			all = append(all, key[len(key)-4:]+":"+name) // kinds are a space of their own
		}
	}
	for _, short := range sliceOf(n["shortNames"]) {
		all = append(all, "short:"+short.(string))
	}
	return all
}

func sliceOf(v any) []any {
	s, _ := v.([]any)
	return s
}

// TestDeletionDuringCreations deletes a definition while resources of it are created, half of them
// with a finalizer: all are deleted before the definition is.
func TestDeletionDuringCreations(t *testing.T) {
	const writers, writes = 8, 40
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.define(minimal)
		path := definitionsPath + "/widgets.example.com"
		var group sync.WaitGroup
		for writer := range writers {
			group.Go(func() {
				for i := range writes {
					name, finalizers := fmt.Sprintf("w-%d-%d", writer, i), ""
					if i%2 == 0 {
						finalizers = `"example.com/wait"`
					}
					a := s.do("POST", widgetsPath, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget",`+
						`"metadata":{"name":"%s","finalizers":[%s]}}`, name, finalizers))
					if a.code != 201 && a.code != 403 && a.code != 404 {
						t.Errorf("create: %d %s", a.code, a.body)
					}
					if writer == 0 && i == writes/2 {
						s.want(200, "DELETE", path, "")
					}
				}
			})
		}
		group.Wait()
		synctest.Wait()
		s.want(409, "POST", definitionsPath, minimal)
		list := s.want(200, "GET", widgetsPath, "")
		for _, item := range list.object["items"].([]any) {
			u := unstructured.Unstructured{Object: item.(map[string]any)}
			if u.GetDeletionTimestamp() == nil {
				t.Errorf("%s is not being deleted", u.GetName())
			}
			group.Go(func() {
				s.want(200, "PATCH", widgetsPath+"/"+u.GetName(), `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
			})
		}
		group.Wait()
		synctest.Wait()
		s.want(404, "GET", path, "")
		page, err := s.backend.Range(t.Context(), storage.Query{Path: "/registry/example.com/"})
		if err != nil || len(page.Records) > 0 {
			t.Errorf("%d records are left, %v", len(page.Records), err)
		}
		s.define(minimal)
	})
}
