package endpoints

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1beta1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/apihelpers"
)

// convertedEncoding returns the encoding for a list of another kind: a table, as for kubectl get, or the metadata of the
// objects. A chunk of objects is converted and encoded at a time.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.optionsForTransform
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.targetEncodingForTransform
func (h *lists) convertedEncoding(r *http.Request, out negotiation.MediaTypeOptions) (encodeList, fallback) {
	codecs := apihelpers.GetMetaInternalVersionCodecs()
	_, info, err := negotiation.NegotiateOutputMediaType(r, codecs, h.scope)
	version := out.Convert.GroupVersion()
	isMetadata := out.Convert.Kind == "PartialObjectMetadataList" && version == metav1.SchemeGroupVersion
	if err == nil && isMetadata && info.MediaType == runtime.ContentTypeProtobuf && h.decoded == "" {
		return protobufList{encoder: codecs.EncoderForVersion(info.Serializer, version), metadata: true}.encode, ""
	}
	if err != nil || info.MediaType != runtime.ContentTypeJSON || info.Serializer == info.PrettySerializer {
		return nil, errOutput
	}
	j := jsonList{encoder: codecs.EncoderForVersion(info.Serializer, version)}
	switch {
	case out.Convert.Kind == "Table":
		options := &metav1.TableOptions{}
		err := metainternalversionscheme.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion, options)
		if err != nil || len(validation.ValidateTableOptions(options)) > 0 {
			return nil, errParameters
		}
		j.none = noRows
		j.convert = func(list runtime.Object, head bool) (runtime.Object, error) {
			return h.table(r.Context(), list, options, head)
		}
		j.rows = &tableRows{
			table: func(list runtime.Object) (*metav1.Table, error) { return h.table(r.Context(), list, options, false) },
			object: func(obj runtime.Object) (runtime.Object, error) {
				return h.rowObject(obj, options.IncludeObject, version)
			},
		}
		if options.IncludeObject == "" || options.IncludeObject == metav1.IncludeMetadata {
			j.rows.metadataOf(version)
		}
	case isMetadata:
		j.none = noItems
		j.convert = func(list runtime.Object, _ bool) (runtime.Object, error) { return metadataList(list) }
	default:
		return nil, errOutput
	}
	return j.encode, ""
}

// table converts a list to a table, with the columns if the table has a head. The rows have the objects.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.asTable
func (h *lists) table(ctx context.Context, list runtime.Object, options *metav1.TableOptions, head bool) (*metav1.Table, error) {
	o := *options
	o.NoHeaders = o.NoHeaders || !head
	table, err := h.scope.TableConvertor.ConvertToTable(ctx, list, &o)
	if err == nil && table.Rows == nil {
		table.Rows = []metav1.TableRow{}
	}
	return table, err
}

// rowObject returns what the row of an object includes of the object.
func (h *lists) rowObject(obj runtime.Object, include metav1.IncludeObjectPolicy, version schema.GroupVersion) (runtime.Object, error) {
	isEnd, err := apistorage.HasInitialEventsEndBookmarkAnnotation(obj) // also an object of a list may have the annotation
	switch {
	case err != nil:
		return nil, err
	case include == metav1.IncludeObject:
		return h.scope.Convertor.ConvertToVersion(obj, h.scope.Kind.GroupVersion())
	case include == metav1.IncludeNone && !isEnd:
		return nil, nil
	}
	return partial(obj, version)
}

// partial returns the metadata of an object.
func partial(obj runtime.Object, version schema.GroupVersion) (*metav1.PartialObjectMetadata, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	p := meta.AsPartialObjectMetadata(m)
	p.SetGroupVersionKind(version.WithKind("PartialObjectMetadata"))
	return p, nil
}

// metadataList returns the metadata of the objects of a list.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.asPartialObjectMetadataList
func metadataList(list runtime.Object) (*metav1.PartialObjectMetadataList, error) {
	from, ok := list.(metav1.ListInterface)
	if !ok {
		return nil, fmt.Errorf("%T is not a list", list)
	}
	to := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{}}
	to.ResourceVersion, to.Continue, to.RemainingItemCount = from.GetResourceVersion(), from.GetContinue(), from.GetRemainingItemCount()
	return to, meta.EachListItem(list, func(obj runtime.Object) error {
		p, err := partial(obj, metav1.SchemeGroupVersion)
		if err == nil {
			to.Items = append(to.Items, *p)
		}
		return err
	})
}
