package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"flyball.dev/cmd/flyball/internal/process"
)

// The multichecker type-checks packages with the export data of their dependencies. golang.org/x/tools/go/packages lets
// the go command compile all dependencies for that, which takes minutes of CPU time for an operator if the build cache
// is empty. This program is therefore also the driver that lists packages for the multichecker, with the protocol of
// go/packages. It uses the export data of dependencies that the go command has already compiled. All other dependencies
// are type-checked from source, without function bodies.

// driverVariable is the environment variable that makes this program run as a driver.
const driverVariable = "FLYBALL_VET_DRIVER"

// driverEnvironment returns an environment in which go/packages uses program as its driver, unless the user has chosen
// another driver.
func driverEnvironment(program string) []string {
	if _, err := exec.LookPath("gopackagesdriver"); err == nil || os.Getenv("GOPACKAGESDRIVER") != "" {
		return nil
	}
	return append(os.Environ(), "GOPACKAGESDRIVER="+program, driverVariable+"=1")
}

// drivePackages reads a driver request, and writes the packages that match the patterns, with their dependencies.
func drivePackages(ctx context.Context, in io.Reader, out io.Writer, patterns []string) error {
	var request packages.DriverRequest
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		return err
	}
	compiled := make(chan map[string]string, 1)
	go func() { compiled <- exportData(ctx, &request, patterns) }()
	roots, err := packages.Load(&packages.Config{
		Context: ctx,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps,
		Env:        append(os.Environ(), "GOPACKAGESDRIVER=off"),
		BuildFlags: request.BuildFlags,
		Tests:      request.Tests,
		Overlay:    request.Overlay,
	}, patterns...)
	exports := <-compiled
	if err != nil {
		return err
	}
	response := packages.DriverResponse{Compiler: "gc"}
	if response.Arch, response.GoVersion, err = target(ctx); err != nil {
		return err
	}
	for _, root := range roots {
		response.Roots = append(response.Roots, root.ID)
	}
	packages.Visit(roots, nil, func(p *packages.Package) {
		p.ExportFile = exports[p.ID]
		response.Packages = append(response.Packages, p)
	})
	return json.NewEncoder(out).Encode(&response)
}

// target returns the architecture to build for, and the minor version of the go command.
func target(ctx context.Context) (arch string, minor int, err error) {
	out, err := process.Command(ctx, "go", "env", "GOARCH", "GOVERSION").Output()
	if err != nil {
		return "", 0, err
	}
	arch, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if _, err := fmt.Sscanf(version, "go1.%d", &minor); err != nil {
		minor = 0 // unknown
	}
	return arch, minor, nil
}

// exportData returns the export data files of already compiled packages by package ID. It returns none if the go
// command fails.
func exportData(ctx context.Context, request *packages.DriverRequest, patterns []string) map[string]string {
	files := map[string]string{}
	program, err := os.Executable()
	if err != nil {
		return files
	}
	args := append([]string{"list", "-e", "-export", "-deps", "-pgo=off", "-test=" + strconv.FormatBool(request.Tests),
		"-toolexec=" + quoted(program) + " " + compileNothing, "-f={{with .Export}}{{$.ImportPath}}\t{{.}}{{end}}"}, request.BuildFlags...)
	out, _ := process.Command(ctx, "go", append(append(args, "--"), patterns...)...).Output() // it fails where something is to be compiled
	for line := range strings.Lines(string(out)) {
		if id, file, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			files[id] = file
		}
	}
	return files
}

// quoted quotes an argument for the flags of the go command.
func quoted(argument string) string {
	if strings.Contains(argument, `"`) {
		return "'" + argument + "'"
	}
	return `"` + argument + `"`
}

// compileNothing is the argument that precedes the tool when the go command runs this program as -toolexec.
const compileNothing = "flyball-compile-nothing"

// toolexec runs a tool if the go command asks for its version, which the keys of the build cache depend on. Otherwise
// it fails, so that the go command compiles nothing. It returns the exit code.
func toolexec(ctx context.Context, tool string, args []string) int {
	if !slices.Contains(args, "-V=full") && !slices.Contains(args, "-###") {
		return 1
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return max(1, cmd.ProcessState.ExitCode())
	}
	return 0
}
