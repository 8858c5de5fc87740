package serviceaccounttoken

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestNextStep(t *testing.T) {
	certificate := []byte("certificate")
	account := func(uid types.UID) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: uid}}
	}
	secret := func(uid string, data map[string][]byte) *corev1.Secret {
		s := &corev1.Secret{Data: data, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "a"}}}
		if uid != "" {
			s.Annotations[corev1.ServiceAccountUIDKey] = uid
		}
		return s
	}
	data := func(token, ca, namespace string) map[string][]byte {
		d := map[string][]byte{"ca.crt": []byte(ca), "namespace": []byte(namespace)}
		if token != "" {
			d["token"] = []byte(token)
		}
		return d
	}
	deleting := secret("old", nil)
	deleting.DeletionTimestamp = new(metav1.Now())
	for _, tc := range []struct {
		name    string
		secret  *corev1.Secret
		account *corev1.ServiceAccount
		want    step
	}{
		{"new", secret("", nil), account("1"), step{update: secret("1", data("", "certificate", "default")), token: true}},
		{"complete", secret("1", data("t", "certificate", "default")), account("1"), step{}},
		{"another certificate", secret("1", data("t", "old", "default")), account("1"), step{update: secret("1", data("t", "certificate", "default"))}},
		{"another namespace", secret("1", data("t", "certificate", "x")), account("1"), step{update: secret("1", data("t", "certificate", "default"))}},
		{"the token was removed", secret("1", data("", "certificate", "default")), account("1"),
			step{update: secret("1", data("", "certificate", "default")), token: true}},
		{"no account", secret("", nil), nil, step{delete: true}},
		{"another account of that name", secret("1", data("t", "certificate", "default")), account("2"), step{delete: true}},
		{"being deleted", deleting, account("1"), step{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := nextStep(tc.secret, tc.account, certificate)
			if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(step{})); d != "" {
				t.Errorf("step (-want +got):\n%s", d)
			}
		})
	}
}
