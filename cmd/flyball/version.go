package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is the output of "flyball version".
type versionInfo struct {
	Version    string `json:"version"`              // of the module
	Revision   string `json:"revision,omitempty"`   // of the source, if it was built from a repository
	Time       string `json:"time,omitempty"`       // of the revision
	Modified   bool   `json:"modified,omitempty"`   // whether the source differs from the revision
	GoVersion  string `json:"goVersion"`            // of the compiler
	Platform   string `json:"platform"`             // operating system and architecture
	Kubernetes string `json:"kubernetes,omitempty"` // of the libraries of Kubernetes
}

// version returns the command "flyball version".
func version() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of flyball, Go and the Kubernetes libraries",
		Example: `  flyball version
  flyball version -o json`,
		Args: noArgs("see flyball version --help"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			build, ok := debug.ReadBuildInfo()
			if !ok {
				return fmt.Errorf("this program has no build information")
			}
			return printVersion(cmd.OutOrStdout(), output, newVersionInfo(build))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the output format: json; by default text")
	completeValues(cmd, "output", "json")
	return cmd
}

func newVersionInfo(build *debug.BuildInfo) versionInfo {
	info := versionInfo{Version: build.Main.Version, GoVersion: build.GoVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build.Main.Path != "flyball.dev" { // go tool, in another module
		info.Version = ""
	}
	for _, d := range build.Deps {
		switch d.Path {
		case "flyball.dev":
			info.Version = d.Version
		case "k8s.io/apiserver":
			info.Kubernetes = d.Version
		}
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Revision = s.Value
		case "vcs.time":
			info.Time = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
}

func printVersion(out io.Writer, format string, info versionInfo) error {
	switch format {
	case "":
		fmt.Fprintf(out, "flyball %s\n", info.Version)
		if info.Revision != "" {
			fmt.Fprintf(out, "revision %s of %s%s\n", info.Revision, info.Time, map[bool]string{true: ", modified"}[info.Modified])
		}
		_, err := fmt.Fprintf(out, "%s %s\nKubernetes libraries %s\n", info.GoVersion, info.Platform, info.Kubernetes)
		return err
	case "json":
		return printJSON(out, info)
	}
	return fmt.Errorf("--output %q is invalid: it must be json", format)
}
