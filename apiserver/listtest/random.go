package listtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
)

const metadataList, table = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=", ";as=Table;g=meta.k8s.io;v="

// accepts are the formats of lists, the frequent ones more than once.
var accepts = []string{
	"application/json", "application/json", "application/json", "application/json", "application/json", "*/*", "application/json;pretty=1",
	"application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf",
	"application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "application/json" + metadataList + "v1",
	"application/vnd.kubernetes.protobuf,application/json", "application/json;q=0.1,application/vnd.kubernetes.protobuf",
	"application/yaml", "application/cbor", "text/html",
	"application/json" + table + "v1", "application/json" + table + "v1", "application/json" + table + "v1beta1",
	"application/json" + table + "v1,application/json", "application/vnd.kubernetes.protobuf" + table + "v1", "application/yaml" + table + "v1", "application/cbor" + table + "v1",
	"application/json" + metadataList + "v1", "application/json" + metadataList + "v1beta1", "application/vnd.kubernetes.protobuf" + metadataList + "v1",
	"application/vnd.kubernetes.protobuf" + metadataList + "v1", "application/vnd.kubernetes.protobuf" + metadataList + "v1beta1",
	"application/yaml" + metadataList + "v1", "application/cbor" + metadataList + "v1",
	"application/vnd.kubernetes.protobuf" + metadataList + "v1,application/json" + metadataList + "v1",
}

// request returns a random request.
func (w *world) request() Request {
	accept, encoding := pick(w, accepts...), pick(w, "identity", "gzip")
	if len(w.next) > 0 && w.chance(20) {
		r := pick(w, w.next...)
		if w.chance(50) {
			r.Accept, r.Encoding = accept, encoding
		}
		return r
	}
	k := pick(w, kinds...)
	query := url.Values{}
	if w.chance(50) {
		query.Set("labelSelector", w.labelSelector())
	}
	if w.chance(30) {
		query.Set("fieldSelector", w.fieldSelector(k))
	}
	if strings.Contains(accept, "Table") && w.chance(50) {
		query.Set("includeObject", pick(w, "Object", "None", "Metadata", "Metadata", "All"))
	}
	if w.chance(2) {
		query.Set("pretty", "true")
	}
	r := Request{Path: w.randomPath(k), Accept: accept, Encoding: encoding}
	if w.Bubble && w.chance(10) {
		r.Query, r.Accept = w.watch(query), strings.NewReplacer("ObjectMetadataList", "ObjectMetadata", "cbor", "json").Replace(accept)
		return r
	}
	if isIndexed := strings.Contains(query.Get("fieldSelector"), "spec.nodeName="); !isIndexed && w.chance(50) { // an index knows that no match follows
		query.Set("limit", pick(w, "1", "2", "3", "5", "8", "17", "30", "50", "500", "0"))
	}
	if w.chance(30) {
		query.Set("resourceVersion", w.version())
	}
	if query.Has("resourceVersion") && w.chance(60) || w.chance(2) {
		query.Set("resourceVersionMatch", pick(w, "Exact", "Exact", "NotOlderThan", "NotOlderThan", "x"))
	}
	if w.chance(2) {
		query.Set(pick(w, "limit", "continue"), pick(w, "x", "-1"))
	}
	r.Query = query.Encode()
	return r
}

// remember keeps the resource version and the continue token of a list for later requests.
func (w *world) remember(r Request, response *httptest.ResponseRecorder) {
	var list struct {
		Metadata struct{ ResourceVersion, Continue string }
	}
	text, err := body(response)
	if err != nil || json.Unmarshal(text, &list) != nil {
		return
	}
	if version := list.Metadata.ResourceVersion; version != "" {
		w.versions = append(w.versions[max(0, len(w.versions)-20):], version)
	}
	if token := list.Metadata.Continue; token != "" {
		query, _ := url.ParseQuery(r.Query)
		query.Set("continue", token)
		query.Del("resourceVersion")
		query.Del("resourceVersionMatch")
		r.Query = query.Encode()
		w.next = append(w.next[max(0, len(w.next)-20):], r)
	}
}

// watch returns the query of a watch that begins with the objects and ends after a second. It begins with "watch".
func (w *world) watch(query url.Values) string {
	query.Set("timeoutSeconds", "1")
	if w.chance(70) {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		query.Set("allowWatchBookmarks", "true")
	}
	if w.chance(30) {
		query.Set("resourceVersion", pick(w, "0", w.version()))
	}
	return "watch=true&" + query.Encode()
}

// version returns a resource version, often of a list before.
func (w *world) version() string {
	latest, oldest := w.revisions()
	if w.Bubble && w.chance(5) {
		return fmt.Sprint(latest + 100)
	}
	return pick(w, "0", "0", fmt.Sprint(latest), pick(w, append(w.versions, "0")...), fmt.Sprint(oldest+w.Uint64N(latest-oldest+1)), "1",
		pick(w, "", "", "x", "-1"))
}

// randomPath returns a path of the objects of a kind, in one namespace or in all.
func (w *world) randomPath(k kind) string {
	namespace := ""
	if k.namespaced && w.chance(50) {
		namespace = pick(w, namespaces...)
	}
	return k.path(pick(w, k.versions...), namespace)
}

// labelSelector returns a random selector.
func (w *world) labelSelector() string {
	var terms []string
	for range 1 + w.IntN(2) {
		key := pick(w, slices.Sorted(maps.Keys(labelValues))...)
		values := append([]string{"none"}, labelValues[key]...)
		one, other := pick(w, values...), pick(w, values...)
		terms = append(terms, pick(w, key+"="+one, key+"="+one, key+"!="+one, key, "!"+key, key+" in ("+one+","+other+")", key+" notin ("+one+","+other+")",
			key+">1", key+"<2", cmp.Or(pick(w, "", "", "", "", "==="), key)))
	}
	return strings.Join(terms, ",")
}

// fieldSelector returns a random selector of fields that a kind may have.
func (w *world) fieldSelector(k kind) string {
	var terms []string
	for range 1 + w.IntN(2) {
		field := pick(w, k.fields...)
		if w.chance(30) {
			field = pick(w, []string{"metadata.name", name(w.IntN(names))}, append([]string{"metadata.namespace", ""}, namespaces...), []string{"no.such", ""})
		}
		terms = append(terms, field[0]+pick(w, "=", "=", "==", "!=")+pick(w, field[1:]...))
	}
	return strings.Join(terms, ",")
}
