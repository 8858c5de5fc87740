package admission

import (
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"sigs.k8s.io/yaml"
)

// readConfigurations reads an AdmissionConfiguration, and returns the configurations of plugins by name. A
// configuration is in the file, or in another file with a path relative to it. For an empty file name there are none.
//
//upstream:k8s.io/apiserver/pkg/admission.ReadAdmissionConfiguration
func readConfigurations(file string) (map[string][]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("unable to read admission control configuration from %q [%w]", file, err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, err := runtime.Decode(codecs.UniversalDecoder(), data)
	if err != nil {
		return nil, fmt.Errorf("admission control configuration %q: %w", file, err)
	}
	configuration, ok := obj.(*apiserver.AdmissionConfiguration)
	if !ok {
		return nil, fmt.Errorf("admission control configuration %q: unexpected type: %T", file, obj)
	}
	configurations := map[string][]byte{}
	for _, p := range configuration.Plugins {
		switch _, given := configurations[p.Name]; {
		case given: // the first counts
		case p.Configuration != nil:
			configurations[p.Name] = p.Configuration.Raw
		case p.Path != "":
			path := p.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(file), path)
			}
			if configurations[p.Name], err = os.ReadFile(path); err != nil {
				return nil, fmt.Errorf("couldn't open admission plugin configuration: %w", err)
			}
		}
	}
	return configurations, nil
}

// decodeConfiguration decodes a Configuration of the given group in version v1alpha1. It does nothing if data is empty.
func decodeConfiguration(data []byte, group string, into any) error {
	if data == nil {
		return nil
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(data, &kind); err != nil {
		return err
	}
	if kind.Kind != "Configuration" || kind.APIVersion != group+"/v1alpha1" {
		return fmt.Errorf("no kind %q is registered for version %q, only Configuration for %s/v1alpha1",
			kind.Kind, kind.APIVersion, group)
	}
	return yaml.Unmarshal(data, into)
}
