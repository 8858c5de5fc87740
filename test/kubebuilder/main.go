// Command kubebuilder is Kubebuilder with its plugins for Go projects, built from its published
// module, so that the scripts need nothing but Go.
package main

import (
	"log"

	"sigs.k8s.io/kubebuilder/v4/pkg/cli"
	configv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugins/common/kustomize/v2"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang"
	golangv4 "sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang/v4"

	"github.com/spf13/afero"
)

func main() {
	goPlugin, err := plugin.NewBundleWithOptions(
		plugin.WithName(golang.DefaultNameQualifier),
		plugin.WithVersion(plugin.Version{Number: 4}),
		plugin.WithPlugins(v2.Plugin{}, golangv4.Plugin{}),
	)
	if err != nil {
		log.Fatal(err)
	}
	c, err := cli.New(
		cli.WithCommandName("kubebuilder"),
		cli.WithPlugins(goPlugin),
		cli.WithDefaultPlugins(configv3.Version, goPlugin),
		cli.WithDefaultProjectVersion(configv3.Version),
		cli.WithFilesystem(machinery.Filesystem{FS: afero.NewOsFs()}),
	)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(); err != nil {
		log.Fatal(err)
	}
}
