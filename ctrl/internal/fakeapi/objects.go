package fakeapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// scheme is client-go's, with the kinds of metadata-only objects.
var scheme, codecs = func() (*runtime.Scheme, runtimeserializer.CodecFactory) {
	s := runtime.NewScheme()
	if err := (&runtime.SchemeBuilder{clientgoscheme.AddToScheme, metav1.AddMetaToScheme}).AddToScheme(s); err != nil {
		panic(err)
	}
	return s, runtimeserializer.NewCodecFactory(s)
}()

func kindOf(obj runtime.Object) schema.GroupVersionKind {
	kinds, _, err := scheme.ObjectKinds(obj)
	if err != nil {
		panic(err)
	}
	return kinds[0]
}

// serializer returns the serializer of the server's media type.
func (s *Server) serializer() runtime.SerializerInfo {
	media := s.Media
	if media == "" {
		media = runtime.ContentTypeJSON
	}
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media)
	return info
}

func encode(serializer runtime.Encoder, obj runtime.Object) []byte {
	data, err := runtime.Encode(codecs.WithoutConversion().EncoderForVersion(serializer, nil), obj)
	if err != nil {
		panic(err)
	}
	return data
}

// handle answers a request for discovery or for objects of a resource.
func (s *Server) handle(r *http.Request, req Request) (*http.Response, error) {
	if document := s.discovery(req.Path); document != nil {
		return s.aggregate(req, document), nil
	}
	gv, namespace, plural, name := split(req.Path)
	i := slices.IndexFunc(s.resources, func(r resource) bool { return r.kind.GroupVersion() == gv && r.plural == plural })
	switch {
	case i < 0:
		return nil, apierrors.NewNotFound(gv.WithResource(plural).GroupResource(), name)
	case req.Method != http.MethodGet:
		return s.write(gv, path.Join(plural, namespace, name), req)
	case name != "":
		return nil, apierrors.NewMethodNotSupported(gv.WithResource(plural).GroupResource(), "get")
	}
	query := r.URL.Query()
	f := &filter{resource: s.resources[i], namespace: namespace,
		metadata: strings.Contains(req.Accept, "as=PartialObjectMetadata")}
	var err error
	if f.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if f.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if query.Get("watch") == "true" {
		return s.watch(r, f, query)
	}
	return s.list(f, query.Get("continue"))
}

// split parses the path of a resource or an object.
func split(p string) (gv schema.GroupVersion, namespace, plural, name string) {
	parts := strings.Split(strings.Trim(p, "/"), "/")
	if parts[0] == "apis" && len(parts) > 1 {
		gv.Group, parts = parts[1], parts[1:]
	}
	parts = append(parts, "", "", "") // the version, the resource and the name may be missing
	gv.Version, parts = parts[1], parts[2:]
	if parts[0] == "namespaces" && len(parts) > 5 {
		namespace, parts = parts[1], parts[2:]
	}
	return gv, namespace, parts[0], parts[1]
}

// list returns a page. A continue token is the version of the first page and a name. Later pages
// have the objects of now, as the watch from that version repeats the changes.
func (s *Server) list(f *filter, token string) (*http.Response, error) {
	version, from := s.Version, ""
	if token != "" {
		before, after, _ := strings.Cut(token, "/")
		version, _ = strconv.Atoi(before)
		if from = after; version < s.Oldest {
			return nil, apierrors.NewResourceExpired("the continue token is too old")
		}
	}
	list := f.new("List", &metav1.PartialObjectMetadataList{}).(interface {
		metav1.ListInterface
		runtime.Object
	})
	list.SetResourceVersion(strconv.Itoa(version))
	var items []runtime.Object
	for _, obj := range s.of(f.plural) {
		name := path.Join(obj.GetNamespace(), obj.GetName())
		if name < from || !f.matches(obj) {
			continue
		}
		if s.PageSize > 0 && len(items) == s.PageSize {
			list.SetContinue(fmt.Sprintf("%d/%s", version, name))
			break
		}
		items = append(items, f.represent(obj))
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	return s.encoded(list), nil
}

// write creates an object, or patches the one at key with a strategic merge patch.
func (s *Server) write(gv schema.GroupVersion, key string, req Request) (*http.Response, error) {
	plural, _, _ := strings.Cut(key, "/")
	resource, body, before := gv.WithResource(plural).GroupResource(), []byte(req.Body), s.objects[key]
	if req.Method == http.MethodPatch {
		if before == nil {
			return nil, apierrors.NewNotFound(resource, path.Base(key))
		}
		var err error
		original := encode(s.serializer().Serializer, before)
		if body, err = strategicpatch.StrategicMergePatch(original, body, before); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	decoded, err := runtime.Decode(codecs.UniversalDeserializer(), body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	obj := decoded.(Object)
	if req.Method == http.MethodPost && s.objects[path.Join(key, obj.GetName())] != nil {
		return nil, apierrors.NewAlreadyExists(resource, obj.GetName())
	}
	s.put(plural, obj)
	return s.encoded(obj), nil
}

// encoded returns a response with an object in the server's media type.
func (s *Server) encoded(obj runtime.Object) *http.Response {
	info := s.serializer()
	return response(http.StatusOK, info.MediaType, io.NopCloser(bytes.NewReader(encode(info.Serializer, obj))))
}

// filter selects what a list or watch returns, and its representation. Field selectors may name any
// field that holds a string.
type filter struct {
	resource
	namespace string
	labels    labels.Selector
	fields    fields.Selector
	metadata  bool
}

func (f *filter) matches(obj Object) bool {
	if obj == nil || f.namespace != "" && f.namespace != obj.GetNamespace() ||
		!f.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(err)
	}
	set := fields.Set{}
	for _, r := range f.fields.Requirements() {
		set[r.Field], _, _ = unstructured.NestedString(content, strings.Split(r.Field, ".")...)
	}
	return f.fields.Matches(set)
}

// represent returns the object, or its metadata if the request asks for that.
func (f *filter) represent(obj Object) runtime.Object {
	if f.metadata {
		return meta.AsPartialObjectMetadata(obj)
	}
	return obj
}

// new returns an empty value of the kind with this suffix, or metadata if the request asks for
// that.
func (f *filter) new(suffix string, metadata runtime.Object) runtime.Object {
	if f.metadata {
		return metadata
	}
	obj, err := scheme.New(f.kind.GroupVersion().WithKind(f.kind.Kind + suffix))
	if err != nil {
		panic(err)
	}
	return obj
}
