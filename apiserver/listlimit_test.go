package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

const eventsPath = "/api/v1/namespaces/default/events"

// page is what a test sees of a list.
type page struct {
	items    int
	token    string
	remained *int64
}

// pageOf returns the page of a response.
func (l *listed) pageOf(path, query, accept string) page {
	l.tb.Helper()
	w := l.compare(path, query, accept, "identity")
	var list struct {
		Metadata struct {
			Continue           string
			RemainingItemCount *int64
		}
		Items, Rows []json.RawMessage
	}
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != http.StatusOK {
		l.tb.Fatal(path, query, w.Code, w.Body)
	}
	return page{len(list.Items) + len(list.Rows), list.Metadata.Continue, list.Metadata.RemainingItemCount}
}

// TestLimitAtVersion0: as from kube-apiserver's watch cache, a list at resource version 0 has no limit, in every encoding. Events
// have no watch cache there. It goes on with a list only if it has snapshots.
func TestLimitAtVersion0(t *testing.T) {
	for _, snapshots := range []bool{true, false} {
		t.Run(fmt.Sprint("snapshots ", snapshots), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ListFromCacheSnapshot, snapshots)
			testLimitAtVersion0(t, snapshots)
		})
	}
}

func testLimitAtVersion0(t *testing.T, snapshots bool) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3
		l := newListed(t, 0)
		for path, body := range map[string]string{
			mapsPath:   `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"limit-%d","labels":{"limit":"x"}}}`,
			customPath: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"limit-%d","labels":{"limit":"x"}},"spec":{"size":1}}`,
			eventsPath: `{"apiVersion":"v1","kind":"Event","metadata":{"name":"limit-%d","labels":{"limit":"x"}},"involvedObject":{"namespace":"default"}}`,
		} {
			for i := range n {
				if w := l.send(http.MethodPost, path, "", "application/json", "", fmt.Sprintf(body, i)); w.Code != http.StatusCreated {
					t.Fatal(w.Code, w.Body)
				}
			}
		}
		latest, _, err := l.storage.Revisions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check := func(path, query, accept string, want int, more bool) page {
			t.Helper()
			p := l.pageOf(path, query, accept)
			if p.items != want || more != (p.token != "") || !more && p.remained != nil {
				t.Errorf("%s?%s as %s: %+v, want %d items", path, query, accept, p, want)
			}
			return p
		}
		for _, path := range []string{mapsPath, customPath, eventsPath, "/apis/events.k8s.io/v1/namespaces/default/events"} {
			all := l.pageOf(path, "", jsonType).items
			cached := !strings.HasSuffix(path, "/events")
			at0, more := all, false
			if !cached {
				at0, more = 1, true
			}
			for _, accept := range []string{jsonType, asTable, jsonType + metadataList} {
				check(path, "limit=1", accept, 1, true)
				check(path, fmt.Sprint("limit=1&resourceVersion=", latest), accept, 1, true)
				check(path, fmt.Sprint("limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=", latest), accept, 1, true)
				check(path, fmt.Sprint("limit=1&resourceVersionMatch=Exact&resourceVersion=", latest), accept, 1, true)
				check(path, "limit=1&resourceVersion=0", accept, at0, more)
				check(path, "limit=1&resourceVersion=0&resourceVersionMatch=NotOlderThan", accept, at0, more)
				check(path, "limit=1&resourceVersion=0&labelSelector=limit%3Dx", accept, min(at0, n), more)
			}
			l.compare(path, "limit=1&resourceVersion=0", protobufType, "identity")

			token := check(path, "limit=1", jsonType, 1, true).token
			check(path, "limit=1&continue="+token, jsonType, 1, true)
			if cached && snapshots {
				check(path, "limit=1&resourceVersion=0&continue="+token, jsonType, at0-1, false)
			} else {
				check(path, "limit=1&resourceVersion=0&continue="+token, jsonType, 1, true)
			}
		}
		options := `{"apiVersion":"v1","kind":"DeleteOptions"}` // without it, the resource version is a precondition
		w := l.send(http.MethodDelete, mapsPath, "limit=1&resourceVersion=0&labelSelector=limit%3Dx", "application/json", "", options)
		if w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
		check(mapsPath, "labelSelector=limit%3Dx", jsonType, 0, false)
	})
}
