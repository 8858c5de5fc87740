package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// progressHeader is the header of a list that requests bookmarks of the open watches of its
// resource, and of the response of a server that sends them. Other servers ignore it.
const progressHeader = "Flyball-Watch-Progress"

// Progress returns the current resource version, by a consistent list of one object at most. If the
// server says so, requested is set: then each open watch that allows bookmarks gets one with that
// version or a later one. The errors are errors of the API.
func (c *Client) Progress(ctx context.Context, opts metav1.ListOptions) (version string, requested bool, err error) {
	opts.Limit, opts.ResourceVersion, opts.ResourceVersionMatch = 1, "", ""
	url := c.request(c.rest, c.resource.Namespace, opts, "").URL()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return "", false, err
	}
	req.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	req.Header.Set(progressHeader, "request")
	resp, err := c.http.Do(req)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", false, err
	}
	if resp.StatusCode != http.StatusOK {
		status := metav1.Status{}
		if json.Unmarshal(data, &status) == nil && status.Kind == "Status" {
			return "", false, &apierrors.StatusError{ErrStatus: status}
		}
		return "", false, apierrors.NewGenericServerResponse(resp.StatusCode, "list", schema.GroupResource{Group: c.resource.Kind.Group, Resource: c.resource.Name}, "", string(data), 0, true)
	}
	list := metav1.PartialObjectMetadataList{}
	if err := json.Unmarshal(data, &list); err != nil {
		return "", false, fmt.Errorf("list of %s: %w", c.resource.Name, err)
	}
	return list.ResourceVersion, resp.Header.Get(progressHeader) != "", nil
}
