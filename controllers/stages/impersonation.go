package stages

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"

	"flyball.dev/ctrl/client"
)

// patchAs patches an object as another user. The service account needs the permission to impersonate that user.
func (p *player) patchAs(ctx context.Context, user string, patch *lifecycle.Patch, o client.Object) (client.Object, error) {
	d, err := p.dynamicFor(user)
	if err != nil {
		return nil, err
	}
	kind := kindOf(o)
	mapping, err := p.mapper.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	var subresources []string
	if patch.Subresource != "" {
		subresources = append(subresources, patch.Subresource)
	}
	return d.Resource(mapping.Resource).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), patch.Type, patch.Data, metav1.PatchOptions{}, subresources...)
}
