package scaffold

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	goversion "go/version"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"flyball.dev/cmd/flyball/internal/process"
	"flyball.dev/cmd/flyball/internal/projectfile"
)

const (
	// flyballModule is the path of this module.
	flyballModule = "flyball.dev"
	// minimumGo is the Go release that this module requires.
	minimumGo = "1.26.0"
	// controllerRuntime is the required release of controller-runtime.
	controllerRuntime = "v0.25.2"
)

// checkGo returns an error if the go command is missing or too old.
func checkGo(ctx context.Context, folder string) error {
	path, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("go was not found: install Go %s or later from https://go.dev/dl", minimumGo)
	}
	cmd := exec.CommandContext(ctx, path, "env", "GOVERSION")
	cmd.Dir = folder
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s env GOVERSION: %w\n%s", path, err, stderr.Bytes())
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if goversion.IsValid(version) && goversion.Compare(version, "go"+minimumGo) < 0 {
		return fmt.Errorf("%s is %s, which is too old: flyball.dev needs Go %s; install it from https://go.dev/dl, "+
			"or let Go fetch it by GOTOOLCHAIN=go%s", path, version, minimumGo, minimumGo)
	}
	return nil
}

// modulePath returns the module path in a folder's go.mod, or "" if there is no such file.
func modulePath(folder string) (string, error) {
	content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	mod, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return "", err
	}
	if mod.Module == nil {
		return "", errors.New("go.mod: there is no module line: add one, or remove the file")
	}
	return mod.Module.Mod.Path, nil
}

// source returns how to require this module: a version, and a replacement folder if the version is not published.
func source(path string) (version, replacement string, err error) {
	if path != "" {
		if found, err := modulePath(path); err != nil || found != flyballModule {
			return "", "", fmt.Errorf("--flyball-path %s is not a folder with the module %s: %w", path, flyballModule,
				cmpErr(err, errors.New("its go.mod has another module, or there is none")))
		}
		return "v0.0.0", path, nil
	}
	if folder := ownFolder(); folder != "" {
		return "v0.0.0", folder, nil
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path == flyballModule && semver.IsValid(info.Main.Version) {
		return info.Main.Version, "", nil
	}
	return "", "", fmt.Errorf("this flyball does not know where its source is: "+
		"name the folder of the module %s with --flyball-path", flyballModule)
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// ownFolder returns the folder of the module that this program was built from. It returns "" if the program was built
// from a published version or the folder no longer exists. A program that was built with -trimpath does not know where it
// was built: the folder is found if the build has set builtFrom, or if the program was started there or below it.
func ownFolder() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || strings.Contains(file, "@") {
		return ""
	}
	start := cmp.Or(builtFrom, startFolder)
	if filepath.IsAbs(file) {
		start = filepath.Dir(file)
	}
	for folder := start; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if found, err := modulePath(folder); err == nil && found == flyballModule {
			return folder
		}
	}
	return ""
}

// builtFrom is the folder of the module, which a build with -trimpath may set by -ldflags=-X.
var builtFrom string

// startFolder is the working directory in which the program was started, or "." if it is unknown.
var startFolder = func() string {
	folder, err := os.Getwd()
	if err != nil {
		return "."
	}
	return folder
}()

// planModule adds go.mod and go.sum to a plan. If a folder replaces this module, planModule copies all its requirements
// and checksums, so that the go command needs no network.
func planModule(p *plan, project *projectfile.Project, flyballPath string) error {
	version, replacement, err := source(flyballPath)
	if err != nil {
		return err
	}
	f, err := p.load("go.mod")
	if err != nil {
		return err
	}
	mod, err := modfile.Parse("go.mod", f.content, nil)
	if err != nil {
		return err
	}
	if mod.Module == nil {
		if err := mod.AddModuleStmt(project.Repo); err != nil {
			return err
		}
	}
	if mod.Go == nil || goversion.Compare("go"+mod.Go.Version, "go"+minimumGo) < 0 {
		if err := mod.AddGoStmt(minimumGo); err != nil {
			return err
		}
	}
	wanted := []*modfile.Require{require(flyballModule, version)}
	if project.Runtime() == projectfile.RuntimeControllerRuntime {
		wanted = append(wanted, require(peerModule, controllerRuntime))
	}
	if replacement != "" {
		own, err := takeOver(p, replacement)
		if err != nil {
			return err
		}
		wanted = append(wanted, own...)
		if err := mod.AddReplace(flyballModule, "", filepath.ToSlash(replacement), ""); err != nil {
			return err
		}
		if err := replacePeer(mod, project, filepath.ToSlash(replacement)+"/compat", ""); err != nil {
			return err
		}
	} else if err := replacePeer(mod, project, flyballModule+"/compat", version); err != nil {
		return err
	} else if err := p.keep("go.sum"); err != nil {
		return err
	}
	addRequirements(mod, wanted)
	if err := mod.AddTool(flyballModule + "/cmd/flyball"); err != nil {
		return err
	}
	mod.Cleanup()
	mod.SortBlocks()
	f.content, err = mod.Format()
	return err
}

// peerModule is the path of controller-runtime.
const peerModule = "sigs.k8s.io/controller-runtime"

// replacePeer replaces controller-runtime in a project with Flyball's runtime, so that code that imports
// controller-runtime, such as Kubebuilder's controllers, gets the same types.
func replacePeer(mod *modfile.File, project *projectfile.Project, path, version string) error {
	if project.Runtime() != projectfile.RuntimeFlyball {
		return nil
	}
	return mod.AddReplace(peerModule, "", path, version)
}

// setPlane sets Plane according to the project's go.mod.
func (d *data) setPlane(p *plan) error {
	content, err := os.ReadFile(filepath.Join(p.folder, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mod, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return err
	}
	d.Plane = !d.Flyball() && slices.ContainsFunc(mod.Require, func(r *modfile.Require) bool { return r.Mod.Path == flyballModule })
	return nil
}

func require(path, version string) *modfile.Require {
	r := &modfile.Require{}
	r.Mod.Path, r.Mod.Version = path, version
	return r
}

// addRequirements adds requirements, unless the same or a later version is already required.
func addRequirements(mod *modfile.File, wanted []*modfile.Require) {
	var all []*modfile.Require
	for _, r := range slices.Concat(mod.Require, wanted) {
		i := slices.IndexFunc(all, func(a *modfile.Require) bool { return a.Mod.Path == r.Mod.Path })
		switch {
		case i < 0:
			all = append(all, &modfile.Require{Mod: r.Mod, Indirect: r.Indirect})
		case semver.Compare(all[i].Mod.Version, r.Mod.Version) < 0:
			all[i].Mod.Version = r.Mod.Version
		}
	}
	mod.SetRequireSeparateIndirect(all)
}

// takeOver returns the requirements of this module in a folder, and adds its checksums to a plan.
func takeOver(p *plan, folder string) ([]*modfile.Require, error) {
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(p.folder, folder)
	}
	content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return nil, err
	}
	mod, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return nil, err
	}
	sums, err := os.ReadFile(filepath.Join(folder, "go.sum"))
	if err != nil {
		return nil, err
	}
	f, err := p.load("go.sum")
	if err != nil {
		return nil, err
	}
	f.content = mergeSums(f.content, sums)
	return mod.Require, nil
}

// mergeSums merges go.sum files, in the order of the go command.
func mergeSums(files ...[]byte) []byte {
	hashes := map[module.Version]string{}
	for line := range bytes.Lines(bytes.Join(files, []byte("\n"))) {
		if fields := strings.Fields(string(line)); len(fields) == 3 {
			hashes[module.Version{Path: fields[0], Version: fields[1]}] = fields[2]
		}
	}
	versions := slices.Collect(maps.Keys(hashes))
	module.Sort(versions)
	var out bytes.Buffer
	for _, v := range versions {
		fmt.Fprintf(&out, "%s %s %s\n", v.Path, v.Version, hashes[v])
	}
	return out.Bytes()
}

// tidy runs go mod tidy. Without a network the command may fail. If all required modules are available nevertheless,
// tidy only adds a note.
func tidy(ctx context.Context, folder string, changes *Changes) error {
	err := goCommand(ctx, folder, "mod", "tidy")
	if err == nil {
		return nil
	}
	if goCommand(ctx, folder, "list", "-deps", "-test", "./...") != nil {
		return err
	}
	changes.note("go.mod is not tidy yet: run go mod tidy when the network is there (%s)", firstLine(err.Error()))
	return nil
}

// goCommand runs the go command in a folder.
func goCommand(ctx context.Context, folder string, args ...string) error {
	cmd := process.Command(ctx, "go", args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("go %s was interrupted: %w", strings.Join(args, " "), context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("go %s failed: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
