// Package console tests the console in a browser: geometry, accessibility, keyboard, themes, and the time of a large page.
//
// The tests need Chromium, which TestMain installs by apt-get where it may, and npm, which fetches axe-core. Without them
// the tests are skipped at the quick level, and fail at the full level of package testlevel.
package console

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	_ "flyball.dev/internal/orphans"
	"flyball.dev/internal/testlevel"

	"flyball.dev/ctrl/console"
)

// The pinned release of axe-core, which is fetched and not part of this repository.
const (
	axeVersion = "4.14.1"
	axeSum     = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
)

var (
	chromium string // the program, empty if there is none
	axe      string // the script
	missing  error
)

func TestMain(m *testing.M) {
	missing = setUp()
	if missing != nil && testlevel.Full() {
		fmt.Fprintln(os.Stderr, "the browser cannot run:", missing)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// setUp finds or installs Chromium, and fetches axe-core.
func setUp() (err error) {
	if chromium, err = findChromium(); err != nil {
		return err
	}
	axe, err = fetchAxe()
	return err
}

func findChromium() (string, error) {
	for range 2 {
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
			if path, err := exec.LookPath(name); err == nil {
				return path, nil
			}
		}
		if os.Geteuid() != 0 {
			return "", errors.New("there is no chromium, and only root may install it")
		}
		for _, args := range [][]string{{"update", "-q"}, {"install", "-qy", "--no-install-recommends", "chromium"}} {
			if out, err := exec.Command("apt-get", args...).CombinedOutput(); err != nil {
				return "", fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
			}
		}
	}
	return "", errors.New("apt-get has installed no chromium")
}

// fetchAxe returns the script of axe-core from the package of npm, after a check of its sum.
func fetchAxe() (string, error) {
	dir, err := os.MkdirTemp("", "axe")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("npm", "pack", "--silent", "axe-core@"+axeVersion)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm pack: %w\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(dir, "axe-core-"+axeVersion+".tgz"))
	if err != nil {
		return "", err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != axeSum {
		return "", fmt.Errorf("the sum of axe-core %s is %x", axeVersion, sum)
	}
	unzipped, err := gzip.NewReader(strings.NewReader(string(content)))
	if err != nil {
		return "", err
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if err != nil {
			return "", fmt.Errorf("axe.min.js: %w", err)
		}
		if header.Name == "package/axe.min.js" {
			script, err := io.ReadAll(files)
			return string(script), err
		}
	}
}

// tab is a tab of a browser that has opened the console.
type tab struct {
	context.Context
	base string // of all pages

	mu     sync.Mutex
	errors []string // of the console of the browser
}

// openTab starts a browser with the cookie of the console.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	if missing != nil {
		t.Skip("the browser cannot run: ", missing)
	}
	profile, err := os.MkdirTemp("", "flyball-console-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(profile); err != nil {
			t.Log("a process of the browser outlives it, and writes its profile: ", err)
		}
	})
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.UserDataDir(profile), chromedp.Flag("hide-scrollbars", true))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 4*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil { // it waits for the browser to end
			t.Log("the browser does not end: ", err)
		}
	})
	base, _, _ := strings.Cut(url, "?")
	b := &tab{Context: ctx, base: base}
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
				b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	})
	b.run(t, chromedp.Navigate(url))
	return b
}

func (b *tab) run(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(b, actions...); err != nil {
		t.Fatal(err)
	}
}

// takeErrors returns the errors since the last call.
func (b *tab) takeErrors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	errors := b.errors
	b.errors = nil
	return errors
}

// view sets the theme and the width.
func (b *tab) view(t *testing.T, theme string, width int64) {
	t.Helper()
	b.run(t, emulation.SetDeviceMetricsOverride(width, 900, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
}

// geometry returns the faults in the layout of a page: elements that scroll sideways, leave the window, are cut off, or
// overlap something else.
const geometry = `(() => {
  const wrong = [], width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) wrong.push("the page is " + document.documentElement.scrollWidth + " wide");
  const name = (e) => e.tagName.toLowerCase() + "." + e.className + " " + JSON.stringify(e.textContent.trim().slice(0, 40));
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; n = walker.nextNode();) {
    const e = n.parentElement;
    if (!n.textContent.trim() || e.closest(".hide, .skip, select, script") || !e.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(n);
    for (const r of range.getClientRects()) {
      if (r.width < 1) continue;
      if (r.left < -0.5 || r.right > width + 0.5) wrong.push(name(e) + " leaves the window: " + r.left + " to " + r.right);
      boxes.push({ e, r });
    }
  }
  boxes.sort((a, b) => a.r.top - b.r.top);
  for (let i = 0; i < boxes.length; i++) {
    for (let j = i + 1; j < boxes.length && boxes[j].r.top < boxes[i].r.bottom; j++) {
      const a = boxes[i].r, b = boxes[j].r;
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 2 && down > 5) wrong.push(name(boxes[i].e) + " overlaps " + name(boxes[j].e));
    }
  }
  for (const e of document.querySelectorAll("main *, header *")) {
    if (e.closest(".hide, .skip, select") || !e.checkVisibility()) continue;
    const overflow = getComputedStyle(e).overflowX;
    if (overflow !== "visible" && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0) wrong.push(name(e) + " is cut off");
  }
  return wrong;
})()`

// TestPages opens every page in both themes, wide and narrow.
func TestPages(t *testing.T) {
	s := open(t)
	b := openTab(t, s.url)
	shots := os.Getenv("FLYBALL_SCREENSHOTS")
	// A step of the plots takes five seconds. The page shows it without being loaded again.
	b.run(t, chromedp.Navigate(b.base), chromedp.WaitReady(".plots polyline", chromedp.ByQuery))
	for _, page := range s.pages(t) {
		for _, theme := range []string{"light", "dark"} {
			for _, width := range []int64{1400, 400} {
				t.Run(fmt.Sprintf("%s/%s/%d", page.name, theme, width), func(t *testing.T) {
					b.view(t, theme, width)
					b.takeErrors()
					var wrong []string
					var violations []struct{ Id, Help, HTML string }
					b.run(t, chromedp.Navigate(b.base+page.path), chromedp.WaitReady("main"),
						chromedp.Evaluate(`document.querySelectorAll("details").forEach((d) => d.open = true)`, nil),
						chromedp.Evaluate(geometry, &wrong),
						chromedp.Evaluate(axe+"\n;0", nil),
						chromedp.Evaluate(`axe.run().then((r) => r.violations.map((v) => ({Id: v.id, Help: v.help, HTML: v.nodes[0].html})))`, &violations,
							func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
					for _, w := range wrong {
						t.Error(w)
					}
					for _, v := range violations {
						t.Errorf("axe: %s: %s: %s", v.Id, v.Help, v.HTML)
					}
					for _, e := range b.takeErrors() {
						if page.code == 404 && strings.Contains(e, "404") {
							continue
						}
						t.Error("the browser: ", e)
					}
					if shots != "" {
						var image []byte
						b.run(t, chromedp.FullScreenshot(&image, 100))
						file := filepath.Join(shots, fmt.Sprintf("%s-%s-%d.png", page.name, theme, width))
						if err := os.WriteFile(file, image, 0o600); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
}

// press moves the focus to the element with the identifier by the Tab key alone, and presses Enter. It
// returns when the next page is there.
func (b *tab) press(t *testing.T, id string) {
	t.Helper()
	for range 60 {
		var focus string
		b.run(t, chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`document.activeElement.id`, &focus))
		if focus == id {
			if _, err := chromedp.RunResponse(b, chromedp.KeyEvent(kb.Enter)); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("the Tab key does not reach %s", id)
}

// TestKeyboard does every act by the keyboard alone.
func TestKeyboard(t *testing.T) {
	s := open(t)
	b := openTab(t, s.url)
	key := b.base + "key?controller=site&request=default/shop"
	for _, c := range []struct{ page, id, then string }{
		{b.base, "act-pause-site-", `#act-resume-site-`},
		{b.base, "act-resume-site-", `#act-pause-site-`},
		{key, "act-pause-site-default/shop", `[id="act-resume-site-default/shop"]`},
		{key, "act-resume-site-default/shop", `[id="act-pause-site-default/shop"]`},
		{key, "act-now-site-default/shop", `[id="act-now-site-default/shop"]`},
		{b.base + "key?controller=site&request=default/broken", "act-forget-site-default/broken", `main`},
		{b.base, "act-level", `main`},
	} {
		b.run(t, chromedp.Navigate(c.page), chromedp.WaitReady("main"))
		b.press(t, c.id)
		b.run(t, chromedp.WaitReady(c.then, chromedp.ByQuery))
	}
	if acts := s.events(t); len(acts) < 7 {
		t.Errorf("these acts are recorded as events: %q", acts)
	}
}

// TestLive changes an object while its page is open: the page follows.
func TestLive(t *testing.T) {
	s := open(t)
	b := openTab(t, s.url)
	b.run(t, chromedp.Navigate(b.base+"key?controller=site&request=default/shop"), chromedp.WaitReady("main"))
	s.set(t, "shop", "motto", "a new motto")
	// The intervals of the poll do not depend on frames, which a browser without a window may leave out.
	err := chromedp.Run(b, chromedp.Poll(`document.querySelector("main").textContent.includes("a new motto")`, nil,
		chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(30*time.Second)))
	if err != nil {
		var state string
		b.run(t, chromedp.Evaluate(`"hidden: " + document.hidden + ", live: " + document.getElementById("live").outerHTML + document.querySelector("main").textContent`, &state))
		t.Errorf("the page does not follow: %v: %s %v", err, state, b.takeErrors())
	}
}

// TestLargePage: a page of 100,000 queued requests has no more elements than a page of 1,000. How long each takes is logged.
func TestLargePage(t *testing.T) {
	s := open(t)
	b := openTab(t, s.url)
	elements := func(requests int) (n int) {
		s.fill(t, requests)
		best := time.Hour
		for range 7 {
			var ended float64
			var text string
			b.run(t, chromedp.Navigate(b.base+"controller?name=many&offset=500"), chromedp.WaitReady("main"), chromedp.Text("main", &text),
				chromedp.Evaluate(`document.querySelectorAll("main *").length`, &n),
				chromedp.Evaluate(`performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`, &ended))
			if !strings.Contains(text, "request-") {
				t.Fatalf("the page has no requests: %s", text)
			}
			best = min(best, time.Duration(ended*float64(time.Millisecond)))
		}
		t.Log("a page of ", requests, " requests takes ", best)
		return n
	}
	small := elements(1000)
	if large := elements(100_000); large > small {
		t.Errorf("a page of 1,000 requests has %d elements, and one of 100,000 has %d", small, large)
	}
}

var update = flag.Bool("update", false, "write the screenshots of the README into docs/images")

// TestScreenshots takes the screenshots of the README: the timeline from the last reconcile that changed something, and its chain.
func TestScreenshots(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	s := open(t)
	var key console.Key
	s.get(t, "key?controller=site&request=default/shop", &key)
	i := slices.IndexFunc(key.Reconciles, func(r console.Reconcile) bool {
		return slices.ContainsFunc(r.Writes, func(w console.Write) bool { return len(w.Changes) > 0 })
	})
	if i < 0 {
		t.Fatal("no reconcile has changed anything")
	}
	id := key.Reconciles[i].ID
	b := openTab(t, s.url)
	b.view(t, "light", 1000)
	for file, path := range map[string]string{
		"console-timeline.png": fmt.Sprint("key?controller=site&request=default/shop&before=", id+1),
		"console-chain.png":    fmt.Sprint("chain?reconcile=", id),
	} {
		var image []byte
		b.run(t, emulation.SetDeviceMetricsOverride(1000, 620, 1, false), chromedp.Navigate(b.base+path), chromedp.WaitReady("main"),
			chromedp.CaptureScreenshot(&image))
		if err := os.WriteFile(filepath.Join("../../docs/images", file), image, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
