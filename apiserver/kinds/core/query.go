package core

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// ConvertQueries adds the conversions of query parameters to the options of connections and logs.
func ConvertQueries(scheme *runtime.Scheme) error {
	for _, options := range []runtime.Object{
		&corev1.PodLogOptions{}, &corev1.PodExecOptions{}, &corev1.PodAttachOptions{}, &corev1.PodPortForwardOptions{},
		&corev1.PodProxyOptions{}, &corev1.NodeProxyOptions{}, &corev1.ServiceProxyOptions{},
	} {
		if err := scheme.AddConversionFunc((*url.Values)(nil), options, convertQuery); err != nil {
			return err
		}
	}
	return nil
}

// convertQuery sets the fields of options from the query parameters with their JSON names.
//
//upstream:pkg/apis/core/v1.Convert_url_Values_To_v1_PodLogOptions
//upstream:pkg/apis/core/v1.Convert_url_Values_To_v1_PodExecOptions
//upstream:pkg/apis/core/v1.Convert_url_Values_To_v1_PodAttachOptions
//upstream:pkg/apis/core/v1.Convert_url_Values_To_v1_PodPortForwardOptions
//upstream:pkg/apis/core/v1.Convert_url_Values_To_v1_PodProxyOptions
//upstream:pkg/apis/core/v1.Convert_url_Values_To_v1_NodeProxyOptions
//upstream:pkg/apis/core/v1.Convert_url_Values_To_v1_ServiceProxyOptions
//upstream:pkg/apis/core/v1.Convert_Slice_string_To_Pointer_string
func convertQuery(from, to any, s conversion.Scope) error {
	query, options := *from.(*url.Values), reflect.ValueOf(to).Elem()
	for i := range options.NumField() {
		name, _, _ := strings.Cut(options.Type().Field(i).Tag.Get("json"), ",")
		values := query[name]
		if name == "" || len(values) == 0 {
			continue
		}
		var err error
		switch field := options.Field(i).Addr().Interface().(type) {
		case *string:
			err = runtime.Convert_Slice_string_To_string(&values, field, s)
		case **string:
			*field = &values[0]
		case *[]string:
			*field = values
		case *bool:
			err = runtime.Convert_Slice_string_To_bool(&values, field, s)
		case **int64:
			err = runtime.Convert_Slice_string_To_Pointer_int64(&values, field, s)
		case **metav1.Time:
			err = metav1.Convert_Slice_string_To_Pointer_v1_Time(&values, field, s)
		case *[]int32:
			err = metav1.Convert_Slice_string_To_Slice_int32(&values, field, s)
		default:
			err = fmt.Errorf("%T has a field of the type %T", to, field)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
