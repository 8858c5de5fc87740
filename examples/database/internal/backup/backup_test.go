package backup

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestService walks through the life of a vault and a snapshot.
func TestService(t *testing.T) {
	s, err := Start(Settings{Hold: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := NewClient(s.URL())
	ctx := t.Context()
	vault := func() (State, error) { return c.Vault(ctx, "v/1") }
	create := func() (State, error) { return c.CreateVault(ctx, "v/1") }
	snapshot := func() (State, error) { return c.Snapshot(ctx, "v/1", "s 1") }
	take := func() (State, error) { return c.TakeSnapshot(ctx, "v/1", "s 1") }
	remove := func() (State, error) { return Absent, c.DeleteVault(ctx, "v/1") }
	set := func(settings Settings) func() (State, error) {
		return func() (State, error) { s.Set(settings); return Absent, nil }
	}
	for i, step := range []struct {
		do   func() (State, error)
		want State
		err  string
	}{
		{do: vault, want: Absent},
		{do: take, err: "404"},
		{do: create, want: Pending},
		{do: create, want: Pending},
		{do: take, err: "409"},
		{do: set(Settings{})},
		{do: vault, want: Ready},
		{do: create, want: Ready},
		{do: snapshot, want: Absent},
		{do: set(Settings{Hold: true})},
		{do: take, want: Pending},
		{do: snapshot, want: Pending},
		{do: set(Settings{Delay: 3_600_000})},
		{do: snapshot, want: Pending},
		{do: set(Settings{Down: true})},
		{do: snapshot, err: "503"},
		{do: take, err: "503"},
		{do: remove, err: "503"},
		{do: set(Settings{})},
		{do: take, want: Ready},
		{do: remove},
		{do: remove},
		{do: snapshot, want: Absent},
	} {
		got, err := step.do()
		if got != step.want || (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("step %d: got %q, %v, want %q, %q", i, got, err, step.want, step.err)
		}
	}
}

// TestSettings changes the settings by request, as a user does, even while the service is down.
func TestSettings(t *testing.T) {
	s, err := Start(Settings{Down: true, Delay: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for body, want := range map[string]int{`{"down":false}`: http.StatusOK, `down`: http.StatusBadRequest} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL()+"/settings", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", body, resp.Status)
		}
	}
	if want := (Settings{Delay: 7}); s.settings != want {
		t.Errorf("the settings are %+v, want %+v", s.settings, want)
	}
	if _, err := NewClient("http://127.0.0.1:1").Vault(t.Context(), "v"); err == nil {
		t.Error("a service that does not listen was reached")
	}
}
