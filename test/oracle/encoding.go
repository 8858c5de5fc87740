package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// scheme has the types that are encoded as protobuf.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

var protobufSerializer = protobuf.NewSerializer(scheme, scheme)

// encoders encode a value of JSON, by content type.
var encoders = map[string]func(any) ([]byte, error){
	"application/cbor":                    func(v any) ([]byte, error) { return direct.Marshal(v) },
	"application/vnd.kubernetes.protobuf": encodeProtobuf,
}

func encodeProtobuf(value any) ([]byte, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	decoder := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme, jsonserializer.SerializerOptions{})
	object, _, err := decoder.Decode(content, nil, nil)
	if err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	err = protobufSerializer.Encode(object, &buffer)
	return buffer.Bytes(), err
}

func decodeProtobuf(content []byte) (any, error) {
	object, _, err := protobufSerializer.Decode(content, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return fmt.Sprintf("protobuf: %v", err), nil
	}
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return decode("application/json", encoded)
}
