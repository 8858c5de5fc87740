package endpoints

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// lists is the fast path of the lists of a resource, as JSON or protobuf. It encodes the objects one after another, so
// that neither the decoded nor the encoded list is in memory as a whole. Objects that are stored as the client wants
// them are not decoded at all.
type lists struct {
	storage  rest.Lister
	scope    *handlers.RequestScope
	decoded  fallback // why objects must be decoded
	upstream http.HandlerFunc
}

// listHandler returns the handler of a resource's lists. upstream is the fallback.
func listHandler(storage rest.Lister, scope *handlers.RequestScope, upstream http.HandlerFunc) http.HandlerFunc {
	store := registryOf(storage)
	if store == nil || store.Decorator != nil {
		return fallBack(errUnsupported, upstream)
	}
	return (&lists{storage: storage, scope: scope, decoded: whyDecoded(store, scope), upstream: upstream}).serve
}

// serve is an [http.HandlerFunc].
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.handleList
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.transformResponseObject
func (h *lists) serve(w http.ResponseWriter, r *http.Request) {
	namespace, err := h.scope.Namer.Namespace(r)
	if err != nil {
		fallBack(errPath, h.upstream)(w, r)
		return
	}
	encode, reason := h.encoding(r)
	if encode == nil {
		fallBack(reason, h.upstream)(w, r)
		return
	}
	options, ok := listOptions(r, h.scope)
	if !ok || options.Watch {
		fallBack(errParameters, h.upstream)(w, r)
		return
	}
	if !audit.AuditContextFrom(r.Context()).GetEventLevel().Less(auditinternal.LevelRequestResponse) {
		fallBack(errAudit, h.upstream)(w, r)
		return
	}
	var stored resource.Listing
	list, err := h.storage.List(resource.WithListing(request.WithNamespace(r.Context(), namespace), &stored), &options)
	if err != nil {
		countFast(r, h.decoded)
		responsewriters.ErrorNegotiated(err, h.scope.Serializer, h.scope.Kind.GroupVersion(), w, r)
		return
	}
	response := newListResponse(w, r)
	if stored.Objects != nil {
		request.TrackSerializeResponseObjectLatency(r.Context(), func() { err = encode(list, stored.Objects, response) })
	}
	if stored.Objects != nil && err == nil {
		if response.close(); !response.begun {
			err = response.err
		}
	}
	switch {
	case stored.Objects == nil || err == errOutput:
		fallBack(errOutput, h.upstream)(w, r)
	case err == nil:
		countFast(r, h.decoded)
	case response.begun:
		utilruntime.HandleErrorWithContext(r.Context(), err, "Failed to write a list")
		panic(http.ErrAbortHandler) // the client must not take it for the whole list
	default:
		countFast(r, h.decoded)
		responsewriters.ErrorNegotiated(err, h.scope.Serializer, h.scope.Kind.GroupVersion(), w, r)
	}
}

// encodeList writes a list, which has no items yet, with its objects. It returns errOutput, and has written nothing, if
// it does not support the objects.
type encodeList func(list runtime.Object, objects resource.StoredObjects, w *listResponse) error

// encoding returns the encoding that a request asks for, or the reason why the fast path does not support it.
func (h *lists) encoding(r *http.Request) (encodeList, fallback) {
	out, info, err := negotiation.NegotiateOutputMediaType(r, h.scope.Serializer, h.scope)
	if err != nil {
		return nil, errOutput
	}
	if out.Convert != nil {
		return h.convertedEncoding(r, out)
	}
	if info.Serializer == info.PrettySerializer {
		return nil, errOutput
	}
	encoder := h.scope.Serializer.EncoderForVersion(info.Serializer, h.scope.Kind.GroupVersion())
	switch {
	case info.MediaType == runtime.ContentTypeJSON:
		return jsonList{encoder: encoder, stored: h.decoded == "", none: noItems}.encode, ""
	case info.MediaType == runtime.ContentTypeProtobuf && h.decoded == "":
		return protobufList{encoder: encoder}.encode, ""
	}
	return nil, errOutput
}

// protobufList encodes lists as protobuf. The size of a list is at its beginning, so the sizes of all objects are added
// before the first one is written.
type protobufList struct {
	encoder  runtime.Encoder
	metadata bool // the items are the metadata of the objects
}

// size returns the size of an item.
func (p protobufList) size(objects resource.StoredObjects, i int) (int, bool) {
	if p.metadata {
		return objects.ProtobufMetadataSize(i)
	}
	return objects.ProtobufSize(i)
}

// append appends an item.
func (p protobufList) append(to []byte, objects resource.StoredObjects, i int) ([]byte, error) {
	if p.metadata {
		return objects.AppendProtobufMetadata(to, i)
	}
	return objects.AppendProtobuf(to, i)
}

// encode is an [encodeList].
func (p protobufList) encode(list runtime.Object, objects resource.StoredObjects, w *listResponse) error {
	total := 0
	for i := range objects.Len() {
		size, ok := p.size(objects, i)
		if !ok {
			return errOutput
		}
		total += fieldSize(size)
	}
	if p.metadata {
		var err error
		if list, err = metadataList(list); err != nil {
			return err
		}
	}
	empty, err := runtime.Encode(p.encoder, list)
	if err != nil {
		return err
	}
	before, after, ok := protobufEnvelope(empty, total)
	if !ok {
		return fmt.Errorf("the encoding of %T is not known", list)
	}
	w.begin(runtime.ContentTypeProtobuf)
	w.write(before)
	for i := 0; i < objects.Len() && w.err == nil; i++ {
		size, _ := p.size(objects, i)
		w.grow(fieldSize(size))
		w.buffer = appendFieldStart(w.buffer, tagItem, size)
		if w.buffer, err = p.append(w.buffer, objects, i); err != nil {
			return err
		}
		w.flushFull()
	}
	w.write(after)
	return w.err
}
