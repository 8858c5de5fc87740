package lab

import (
	"testing"
)

// TestPatchCreate: the patch of a change is for the create of its object alone.
func TestPatchCreate(t *testing.T) {
	c := &Choice{Do: Change, Object: "Order.shop.example.com default/web", Patch: []byte(`{"spec":{"size":null,"color":"red"}}`)}
	const order = `{"apiVersion":"shop.example.com/v1","kind":"Order","metadata":{"namespace":"default","name":"web"},"spec":{"size":1}}`
	for _, tc := range []struct{ name, content, want string }{
		{"the object", order, `{"apiVersion":"shop.example.com/v1","kind":"Order","metadata":{"namespace":"default","name":"web"},"spec":{"color":"red"}}`},
		{"another name", `{"apiVersion":"shop.example.com/v1","kind":"Order","metadata":{"namespace":"default","name":"db"}}`, ""},
		{"another group", `{"apiVersion":"example.com/v1","kind":"Order","metadata":{"namespace":"default","name":"web"}}`, ""},
		{"protobuf", "k8s\x00", ""},
	} {
		if got := string(c.patchCreate([]byte(tc.content))); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
