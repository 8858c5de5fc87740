package apiserver

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"flyball.dev/apiserver/serviceaccount"
)

// serveIndex serves the list of all paths that do not belong to objects.
func (s *Server) serveIndex(w http.ResponseWriter, _ *http.Request) {
	paths := []string{"/apis", "/apis/", "/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version",
		serviceaccount.ConfigurationPath, serviceaccount.KeysPath}
	for _, g := range s.catalog.Snapshot().Versions() {
		root := "/apis/" + g.Name
		if g.Name == "" {
			root = "/api"
		}
		paths = append(paths, root)
		for _, v := range g.Versions {
			paths = append(paths, root+"/"+v.Version)
		}
	}
	for _, endpoint := range []string{"healthz", "livez", "readyz"} {
		paths = append(paths, "/"+endpoint)
		for _, c := range s.health.of(endpoint) {
			paths = append(paths, "/"+endpoint+"/"+c.Name)
		}
	}
	slices.Sort(paths)
	responsewriters.WriteRawJSON(http.StatusOK, metav1.RootPaths{Paths: paths}, w)
}
