package lab

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/internal/protobuf"
)

// frame is an event of a watch, as far as the lab reads it.
type frame struct {
	Type   string
	Object struct {
		Kind       string
		APIVersion string
		Metadata   metadata
	}
	content json.RawMessage // the object, if conditions of the schedule may ask for it
}

// frames are the events of a response.
type frames interface {
	// next returns the next event, as it is and as far as the lab reads it. Both are valid until the next call.
	next() ([]byte, *frame, error)
	// failure returns an event with a status.
	failure(status *metav1.Status) []byte
	// bookmark returns a bookmark in the place of an event.
	bookmark(f *frame) []byte
}

// framesOf returns the events of a response, or nil if it has another media type.
func framesOf(response *http.Response) frames {
	switch mediaType := response.Header.Get("Content-Type"); {
	case strings.HasPrefix(mediaType, "application/json"):
		return &jsonFrames{decoder: json.NewDecoder(response.Body)}
	case strings.HasPrefix(mediaType, "application/vnd.kubernetes.protobuf"):
		return &protobufFrames{reader: bufio.NewReader(response.Body)}
	}
	return nil
}

// jsonFrames are events in JSON.
type jsonFrames struct {
	decoder *json.Decoder
	raw     json.RawMessage
}

func (j *jsonFrames) next() ([]byte, *frame, error) {
	j.raw = j.raw[:0]
	if err := j.decoder.Decode(&j.raw); err != nil {
		return nil, nil, err
	}
	f := &frame{}
	err := json.Unmarshal(j.raw, f)
	j.raw = append(j.raw, '\n')
	return j.raw, f, err
}

func (j *jsonFrames) failure(status *metav1.Status) []byte { return jsonEvent("ERROR", status) }

func (j *jsonFrames) bookmark(f *frame) []byte {
	return jsonEvent("BOOKMARK", map[string]any{"kind": f.Object.Kind, "apiVersion": f.Object.APIVersion,
		"metadata": map[string]any{"resourceVersion": f.Object.Metadata.ResourceVersion}})
}

func jsonEvent(of string, object any) []byte {
	encoded, _ := json.Marshal(map[string]any{"type": of, "object": object}) // it has no value that JSON lacks
	return append(encoded, '\n')
}

// protobufFrames are events in protobuf, each after its length.
type protobufFrames struct {
	reader *bufio.Reader
	raw    []byte
}

func (p *protobufFrames) next() ([]byte, *frame, error) {
	var length [4]byte
	if _, err := io.ReadFull(p.reader, length[:]); err != nil {
		return nil, nil, err
	}
	p.raw = append(p.raw[:0], length[:]...)
	p.raw = append(p.raw, make([]byte, binary.BigEndian.Uint32(length[:]))...)
	event := p.raw[len(length):]
	if _, err := io.ReadFull(p.reader, event); err != nil {
		return nil, nil, err
	}
	f := &frame{Type: string(protobuf.First(event, fieldEventType))}
	object := protobuf.First(protobuf.First(event, fieldEventObject), fieldExtensionRaw)
	kind := protobuf.First(bytes.TrimPrefix(object, protobufPrefix), fieldTypeMeta)
	f.Object.APIVersion, f.Object.Kind = string(protobuf.First(kind, fieldAPIVersion)), string(protobuf.First(kind, fieldKind))
	f.Object.Metadata = protobufMetadata(object)
	return p.raw, f, nil
}

func (p *protobufFrames) failure(status *metav1.Status) []byte {
	return protobufEvent("ERROR", runtime.TypeMeta{Kind: "Status", APIVersion: "v1"}, status)
}

func (p *protobufFrames) bookmark(f *frame) []byte {
	return protobufEvent("BOOKMARK", runtime.TypeMeta{Kind: f.Object.Kind, APIVersion: f.Object.APIVersion},
		&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: f.Object.Metadata.ResourceVersion}})
}

func protobufEvent(of string, kind runtime.TypeMeta, object interface{ Marshal() ([]byte, error) }) []byte {
	// Marshal has no error for these types.
	raw, _ := object.Marshal()
	unknown := runtime.Unknown{TypeMeta: kind, Raw: raw}
	enveloped, _ := unknown.Marshal()
	event := metav1.WatchEvent{Type: of, Object: runtime.RawExtension{Raw: append(bytes.Clone(protobufPrefix), enveloped...)}}
	encoded, _ := event.Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(encoded))), encoded...)
}

// Numbers of the fields that the lab reads. All kinds of Kubernetes have their metadata in the first field.
//
//upstream:k8s.io/apimachinery/pkg/apis/meta/v1.WatchEvent
//upstream:k8s.io/apimachinery/pkg/runtime.RawExtension
//upstream:k8s.io/apimachinery/pkg/runtime.Unknown
//upstream:k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta
const (
	fieldEventType       = 1
	fieldEventObject     = 2
	fieldExtensionRaw    = 1
	fieldTypeMeta        = 1
	fieldAPIVersion      = 1
	fieldKind            = 2
	fieldRaw             = 2
	fieldMetadata        = 1
	fieldName            = 1
	fieldGenerateName    = 2
	fieldNamespace       = 3
	fieldUID             = 5
	fieldResourceVersion = 6
	fieldAnnotations     = 12
)

// protobufMetadata returns the metadata of an object that is encoded as protobuf. Of the annotations, it has only the one that marks the
// end of initial events.
func protobufMetadata(content []byte) (m metadata) {
	object := protobuf.First(protobuf.First(bytes.TrimPrefix(content, protobufPrefix), fieldRaw), fieldMetadata)
	for len(object) > 0 {
		f, rest, ok := protobuf.Next(object)
		if !ok {
			return m
		}
		object = rest
		if !f.IsBytes() {
			continue
		}
		switch f.Number() {
		case fieldName:
			m.Name = string(f.Content)
		case fieldGenerateName:
			m.GenerateName = string(f.Content)
		case fieldNamespace:
			m.Namespace = string(f.Content)
		case fieldUID:
			m.UID = string(f.Content)
		case fieldResourceVersion:
			m.ResourceVersion = string(f.Content)
		case fieldAnnotations:
			if string(protobuf.First(f.Content, 1)) == metav1.InitialEventsAnnotationKey {
				m.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: string(protobuf.First(f.Content, 2))}
			}
		}
	}
	return m
}
