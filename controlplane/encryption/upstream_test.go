package encryption_test

import (
	"bytes"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
)

// upstream returns the transformer of k8s.io/apiserver for Secrets.
func upstream(t *testing.T, file string) value.Transformer {
	t.Helper()
	config, err := encryptionconfig.LoadEncryptionConfig(t.Context(), file, false, "test")
	if err != nil {
		t.Fatal(err)
	}
	return encryptionconfig.StaticTransformers(config.Transformers).TransformerForResource(corev1.Resource("secrets"))
}

// TestUpstream decrypts the stored values with the transformers of k8s.io/apiserver, and reads values that these have
// encrypted. kube-apiserver authenticates a value with its key in etcd.
func TestUpstream(t *testing.T) {
	for _, name := range []string{"aesgcm", "aescbc", "secretbox", "kms"} {
		t.Run(name, func(t *testing.T) {
			dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
			if name == "kms" {
				file = serveKMS(t, newPlugin(t), "1s")
			} else {
				configure(t, file, provider(name, "a"))
			}
			with(t, dir, file, false, func(c kubernetes.Interface) {
				if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret("ours"), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			})
			transformer := upstream(t, file)
			data, stale, err := transformer.TransformFromStorage(t.Context(), stored(t, dir, "ours"), value.DefaultContext("/registry/secrets/default/ours"))
			if err != nil || stale {
				t.Fatalf("stale %v, error %v", stale, err)
			}
			decoded, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), data)
			if err != nil || string(decoded.(*corev1.Secret).Data["text"]) != secretText {
				t.Fatalf("%+v, %v", decoded, err)
			}

			theirs := decoded.(*corev1.Secret)
			theirs.Name, theirs.UID = "theirs", "7"
			var encoded bytes.Buffer
			info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
			if err := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(theirs, &encoded); err != nil {
				t.Fatal(err)
			}
			const key = "/registry/secrets/default/theirs"
			sealed, err := transformer.TransformToStorage(t.Context(), encoded.Bytes(), value.DefaultContext(key))
			if err != nil {
				t.Fatal(err)
			}
			put(t, dir, key, sealed)
			with(t, dir, file, false, func(c kubernetes.Interface) {
				if err := check(t.Context(), c, "theirs"); err != nil {
					t.Error(err)
				}
				if before := rewrite(t, c, "theirs"); rewrite(t, c, "theirs") != before {
					t.Error("a value of kube-apiserver is written again")
				}
			})
		})
	}
}

// put writes a record to a data directory.
func put(t *testing.T, dir, key string, data []byte) {
	t.Helper()
	s, err := datadir.Open(dir, datadir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Put(t.Context(), storage.Write{Key: key, Value: data, If: storage.Any}); err != nil {
		t.Fatal(err)
	}
}
