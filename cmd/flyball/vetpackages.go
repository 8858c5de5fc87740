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

// The multichecker type-checks the packages that are vetted by the export data of their dependencies, for which
// golang.org/x/tools/go/packages lets the go command compile all of them: minutes of CPU time for an operator, with
// an empty build cache. So this program is also the driver that lists packages for it, by the protocol of that
// package. A dependency that go build has compiled has its export data. Any other is type-checked from its source,
// without the bodies of its functions.

// driverVariable is the environment variable by which this program knows that it is such a driver.
const driverVariable = "FLYBALL_VET_DRIVER"

// driverEnvironment returns the environment in which a program lists packages by this one, or has the driver that
// the user has chosen.
func driverEnvironment(program string) []string {
	if _, err := exec.LookPath("gopackagesdriver"); err == nil || os.Getenv("GOPACKAGESDRIVER") != "" {
		return nil
	}
	return append(os.Environ(), "GOPACKAGESDRIVER="+program, driverVariable+"=1")
}

// drivePackages reads a request, and writes the packages that match some patterns, with their dependencies.
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

// target returns the architecture that packages are for, and the minor version of the go command.
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

// exportData returns the files with export data of the packages that need not be compiled for it, by their IDs. If
// the go command fails there are none.
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

// quoted returns an argument as the go command splits its flags.
func quoted(argument string) string {
	if strings.Contains(argument, `"`) {
		return "'" + argument + "'"
	}
	return `"` + argument + `"`
}

// compileNothing is the argument before a tool that the go command runs by this program.
const compileNothing = "flyball-compile-nothing"

// toolexec runs a tool for the go command if it is asked for its version, which the keys of the build cache depend
// on, and otherwise fails, so that nothing is compiled that is not cached. It returns the exit code.
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
