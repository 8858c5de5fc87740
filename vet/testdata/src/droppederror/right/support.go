package right

import (
	"context"
	"testing"

	"api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Setup is for tests, which fail by what they check later.
func Setup(t *testing.T, c client.Client) {
	t.Cleanup(func() { c.Delete(context.Background(), &api.App{}) })
}
