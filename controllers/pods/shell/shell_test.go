package shell_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/pods/memfs"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controllers/pods/shell"
	_ "flyball.dev/internal/orphans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bash = flag.Bool("bash", false, "compare the scripts of TestScripts with the bash of this machine")

// buffer is a buffer that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newFS(t testing.TB) *memfs.FS {
	t.Helper()
	f, err := memfs.NewDisk(4<<20, nil).NewFS(nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// result is the result of a process.
type result struct {
	out, err string
	code     int
}

// process returns a process that writes to buffers.
func process(fs runtime.FS, args ...string) (p *runtime.Process, out, err *buffer) {
	out, err = &buffer{}, &buffer{}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	return &runtime.Process{Pod: pod, Container: &corev1.Container{Name: "c"}, Args: args, FS: fs, Dir: "/", Killed: make(chan struct{}),
		Streams: runtime.Streams{Stdout: out, Stderr: err}}, out, err
}

// execute executes a command, with a text as its input.
func execute(t testing.TB, s *shell.Shell, fs runtime.FS, stdin string, args ...string) result {
	t.Helper()
	p, out, err := process(fs, args...)
	p.Stdin = strings.NewReader(stdin)
	code := s.Run(t.Context(), p)
	if strings.Contains(err.String(), "internal error") {
		t.Errorf("%q: %s", args, err)
	}
	return result{out.String(), err.String(), code}
}

func sh(t testing.TB, script string) result {
	t.Helper()
	return execute(t, shell.New(shell.Options{}), newFS(t), "", "sh", "-c", script)
}

// scripts are scripts that have the same output in Bash. Each is a script and its output.
var scripts = []struct {
	script, out string
	code        int
}{
	{"exit 3", "", 3}, {"true", "", 0}, {"false", "", 1}, {":", "", 0}, {"", "", 0}, {"# comment", "", 0},
	{"echo a  b 'c  d'", "a b c  d\n", 0}, {"echo -n x; echo -e 'a\\tb\\x41\\0101'", "xa\tbAA\n", 0}, {`printf '%s-%d|%5s|%-5s|%05d|%x|%c|%%\n' a 7 b c 42 255 xyz`, "a-7|    b|c    |00042|ff|x|%\n", 0},
	{`printf '%s,' a b c; printf '%b' 'x\ny\n'`, "a,b,c,x\ny\n", 0}, {`printf '%.2f %e\n' 3.14159 1000`, "3.14 1.000000e+03\n", 0},
	{"x=5; echo $x ${x} \"$x\" '$x' ${y:-d} ${x:+s} ${#x}", "5 5 5 $x d s 1\n", 0}, {"x=a/b/c.txt; echo ${x##*/} ${x%/*} ${x#*/} ${x%%.*}", "c.txt a/b b/c.txt a/b/c\n", 0},
	{"x=hello; echo ${x/l/L} ${x//l/L} ${x^} ${x^^} ${x:1:3} ${x: -2}", "heLlo heLLo Hello HELLO ell lo\n", 0},
	{"echo $((1+2*3)) $((7/2)) $((7%2)) $((2**10)) $((1<2)) $((x=4)) $((x++)) $x", "7 3 1 1024 1 4 4 5\n", 0},
	{"if [ 1 -eq 1 ]; then echo y; else echo n; fi; if false; then :; elif true; then echo elif; fi", "y\nelif\n", 0},
	{"for i in 1 2 3; do echo $i; done; for ((i=0;i<2;i++)); do echo c$i; done", "1\n2\n3\nc0\nc1\n", 0},
	{"i=0; while [ $i -lt 3 ]; do i=$((i+1)); [ $i = 2 ] && continue; echo $i; done; until false; do break; done", "1\n3\n", 0},
	{"for i in 1 2; do for j in a b; do [ $j = b ] && continue 2; echo $i$j; done; done", "1a\n2a\n", 0},
	{"case abc in x) echo x;; a*|b) echo a;; *) echo d;; esac; case x in [!a-m]) echo neg;; esac", "a\nneg\n", 0},
	{"case a in a) echo 1;& b) echo 2;; c) echo 3;; esac", "1\n2\n", 0},
	{"f() { echo $1 $#; local x=in; return 4; }; x=out; f a b; echo $? $x", "a 2\n4 out\n", 0},
	{"f() { x=changed; }; x=1; f; echo $x; (x=sub); echo $x", "changed\nchanged\n", 0},
	{"echo a b c | wc -w | tr -d ' '; false | true; echo $?; set -o pipefail; false | true; echo $?", "3\n0\n1\n", 0},
	{"false; x=$?; y=$? z=$?; echo $x $y $z; x=$(exit 3); echo $?; false; x=1; echo $?", "1 0 0\n3\n0\n", 0},
	{"false; exit", "", 1}, {"f() { false; return; }; f; echo $?", "1\n", 0}, {"false; eval 'echo $?'; eval ''; echo $?", "1\n0\n", 0},
	{"printf 'ab\\0\\377' | hexdump -C | sed 's/ *|/|/'", "00000000  61 62 00 ff|ab..|\n00000004\n", 0},
	{`expr 7 % 2; expr 1 + 2 \* 3; expr \( 1 + 2 \) \* 3; expr a = b; expr 10 \> 9; expr abc : 'a\(.*\)'; expr abc : ab; expr length abcd; expr '' \| x`, "1\n7\n9\n0\n1\nbc\n2\n4\nx\n", 0},
	{"expr 0; echo $?; expr 1 / 0 2>&1 | grep -o 'division by zero'; expr a + 1 2>/dev/null; echo $?; expr 1 + 2>/dev/null; echo $?; expr ''; echo $?", "0\n1\ndivision by zero\n2\n2\n\n1\n", 0},
	{"! true; echo $?; ! false; echo $?", "1\n0\n", 0}, {"true && echo a || echo b; false && echo a || echo b", "a\nb\n", 0},
	{"set -e; false; echo no", "", 1}, {"set -e; if false; then :; fi; false || true; ! true; echo yes", "yes\n", 0}, {"set -e; (exit 5); echo no", "", 5},
	{"set -u; echo ${nope-unset}; echo $nope; echo no", "unset\n", 1},
	{"x=$(echo a; echo b); echo \"$x\"; echo $x; echo `echo q`; y=$(exit 7); echo $?", "a\nb\na b\nq\n7\n", 0},
	{"cat <<EOF\na $((1+1)) $(echo s)\nEOF\ncat <<'EOF'\n$x `y`\nEOF\ncat <<-EOF\n\t\ttab\n\tEOF\n", "a 2 s\n$x `y`\ntab\n", 0},
	{"cat <<< here; read a b <<< 'x y z'; echo \"$a|$b\"", "here\nx|y z\n", 0},
	{"echo err >&2; echo out; (echo both; echo e2 >&2) 2>&1 | sort", "out\nboth\ne2\n", 0},
	{"exec 3>&1; echo three >&3; exec 3>&-; echo x 2>/dev/null >&3 || echo closed", "three\nclosed\n", 0},
	{"set -- a 'b c' d; echo $# $2; shift; echo $1; for x; do echo \"<$x>\"; done; echo \"$*\" \"$@\"", "3 b c\nb c\n<b c>\n<d>\nb c d b c d\n", 0},
	{"IFS=:; x=a:b:c; set -- $x; echo $#; echo \"$*\"; IFS=: read a b c <<< 'x::y z'; echo \"$a|$b|$c\"", "3\na:b:c\nx||y z\n", 0},
	{"read x <<< '  a b  '; echo \"[$x]\"; read -r x y <<< 'a\\b c\\ d'; echo \"$x $y\"; read x <<< 'a\\b'; echo $x; IFS=, read -ra l <<< '1,2,,3'; echo ${#l[@]} ${l[3]}", "[a b]\na\\b c\\ d\nab\n4 3\n", 0},
	{"a=(1 2 3); echo ${a[1]} ${#a[@]} ${a[@]}; a[5]=x; echo ${!a[@]}; a+=(y); echo ${a[-1]}; unset 'a[0]'; echo ${a[0]:-gone}", "2 3 1 2 3\n0 1 2 5\ny\ngone\n", 0},
	{"declare -A m; m[k]=v; m[x]=y; echo ${m[k]} ${m[x]}", "v y\n", 0}, {"echo {a,b}{1,2} {1..4} {a..c}", "a1 a2 b1 b2 1 2 3 4 a b c\n", 0},
	{"[[ abc == a* && 5 -gt 3 ]] && echo m; [[ foo =~ ^f(o+)$ ]] && echo ${BASH_REMATCH[1]}; [[ -z '' || x ]] && echo o", "m\noo\no\n", 0},
	{"[ -n x -a ! -z y ] && echo and; test a = b -o 1 -lt 2 && echo or; [ '(' a ')' ] && echo paren", "and\nor\nparen\n", 0},
	{"trap 'echo bye $?' EXIT; exit 6", "bye 6\n", 6}, {"(trap 'echo sub' EXIT); echo main", "sub\nmain\n", 0},
	{"eval 'echo $((3*3))'; x='echo ok'; $x; command echo cmd; builtin echo b", "9\nok\ncmd\nb\n", 0},
	{"f() { echo func; }; f; unset -f f; type f >/dev/null 2>&1 || echo nofunc; type cd", "func\nnofunc\ncd is a shell builtin\n", 0},
	{"export A=1 B; B=2; env | grep '^[AB]=' | sort; C=3 env | grep ^C=; A= printenv A", "A=1\nB=2\nC=3\n\n", 0},
	{"readonly r=1; echo $r; unset u; echo ${u:=assigned} $u", "1\nassigned assigned\n", 0},
	{"while read l; do echo \"[$l]\"; done <<EOF\na\nb c\nEOF", "[a]\n[b c]\n", 0}, {"printf 'x\\ny' | while read l || [ -n \"$l\" ]; do echo $l; done", "x\ny\n", 0},
	{"(exit 2) & wait $!; echo $?; sleep 0 & wait; echo w", "2\nw\n", 0}, {"cat <(echo one) <(echo two); echo z | tee >(cat >/dev/null)", "one\ntwo\nz\n", 0},
	{"getopts ab:c o -b val -a; echo $o $OPTARG $OPTIND; getopts ab: o -b val -a; echo $o", "b val 3\na\n", 0},
	{"sh -c 'echo $0 $1' zero one; sh -c 'exit 9'; echo $?", "zero one\n9\n", 0}, {"echo 'echo from stdin; exit 4' | sh; echo $?", "from stdin\n4\n", 0},
	{"echo b a c | tr ' ' '\\n' | sort | head -2 | tail -1; seq 3; seq 2 2 6 | tr '\\n' ' '; seq 3 -1 1 | tail -1", "b\n1\n2\n3\n2 4 6 1\n", 0},
	{"echo a:b:c | cut -d: -f2; echo abcdef | cut -c2-4; echo a:b:c | cut -d: -f2-", "b\nbcd\nb:c\n", 0},
	{"echo hello world | sed 's/o/0/g; s/w\\(or\\)/[\\1]/'; printf '1\\n2\\n3\\n' | sed -n '2,$p'; echo aXb | sed -E 's/(a)X(b)/\\2\\1/'; printf 'a\\nb\\n' | sed '/a/d'", "hell0 w0rld\n2\n3\nba\nb\n", 0},
	{"printf 'foo\\nbar\\nbaz\\n' | grep -n ba; printf 'foo\\nbar\\n' | grep -c o; printf 'a1\\nb\\n' | grep -E '[a-z][0-9]+'; echo x | grep -q y || echo none", "2:bar\n3:baz\n1\na1\nnone\n", 0},
	{"echo 1 2 3 | xargs -n1 echo n; printf 'a b' | xargs; printf 'x\\ny\\n' | xargs -I{} echo '<{}>'", "n 1\nn 2\nn 3\na b\n<x>\n<y>\n", 0},
	{"basename /a/b.txt .txt; dirname /a/b; dirname x; echo abc | rev; printf 'a\\na\\nb\\n' | uniq -c | tr -s ' '", "b\n/a\n.\ncba\n 2 a\n 1 b\n", 0},
	{"printf '10\\n9\\n2\\n' | sort -n | tr '\\n' ' '; printf 'b 1\\na 2\\n' | sort -k2,2nr | tr '\\n' ' '; printf 'a\\na\\n' | sort -u", "2 9 10 a 2 b 1 a\n", 0},
	{"yes | head -3 | wc -l | tr -d ' '; yes no | head -1; echo text | base64; echo dGV4dAo= | base64 -d", "3\nno\ndGV4dAo=\ntext\n", 0},
	{"printf a | sha256sum | cut -c1-8; printf a | md5sum | cut -c1-8", "ca978112\n0cc175b9\n", 0},
	{"f() { f2; echo after; }; f2() { return 1; }; set -e; f || echo caught", "after\n", 0}, {"x=1; { x=2; echo in; } | cat; echo $x", "in\n1\n", 0},
	{"echo ~root | grep -c /root; echo \"~\" '~'", "1\n~ ~\n", 0}, {"kill -0 $$; echo $?; echo ${#RANDOM} | grep -c '[1-5]'", "0\n1\n", 0},
	{"trap 'echo usr' USR1; kill -USR1 $$; echo after; trap - USR1; trap '' TERM; kill $$; echo alive", "usr\nafter\nalive\n", 0},
	{"sleep 100 & kill $!; wait $!; echo $?", "143\n", 0}, {"timeout 0.01 sleep 10; echo $?; timeout 5 true; echo $?", "124\n0\n", 0},
	{"x='a b'; for w in $x \"$x\"; do echo \"$w\"; done; echo \"${x// /_}\"; y=${x:?no}; echo $y", "a\nb\na b\na_b\na b\n", 0},
	{"f() (echo subshell; exit 3); f; echo $?", "subshell\n3\n", 0}, {"set -- 1 2 3 4 5 6 7 8 9 ten eleven; echo ${10} ${11} $10", "ten eleven 10\n", 0},
	{"date -u -d @0 +%Y-%m-%dT%H:%M:%SZ; date -u -d 2024-02-29 +%j", "1970-01-01T00:00:00Z\n060\n", 0},
}

func TestScripts(t *testing.T) {
	for _, tt := range scripts {
		if got := sh(t, tt.script); got.out != tt.out || got.code != tt.code {
			t.Errorf("%s\nhas the output %q and the code %d (%s), want %q and %d", tt.script, got.out, got.code, got.err, tt.out, tt.code)
		}
		if !*bash {
			continue
		}
		out, _ := exec.Command("bash", "-c", tt.script).Output()
		if string(out) != tt.out {
			t.Errorf("%s\nhas the output %q in bash, not %q", tt.script, out, tt.out)
		}
	}
}

func TestFilesOfPrograms(t *testing.T) {
	for _, tt := range []struct{ script, out string }{
		{"cd /tmp && echo hi > f && cat f && ls && pwd && rm f && ls", "hi\nf\n/tmp\n"},
		{"mkdir -p /tmp/a/b; touch /tmp/a/x /tmp/a/b/y; find /tmp/a | sort; ls -R /tmp/a", "/tmp/a\n/tmp/a/b\n/tmp/a/b/y\n/tmp/a/x\n/tmp/a:\nb\nx\n\n/tmp/a/b:\ny\n"},
		{"cd /tmp; echo 1 >a; cp a b; mv a c; cat b c; ls *; cp -r /tmp /var/t; ls /var/t", "1\n1\nb\nc\nb\nc\n"},
		{"echo a > /tmp/f; echo b >> /tmp/f; wc -l < /tmp/f; > /tmp/f; wc -c < /tmp/f; set -C; echo x > /tmp/f || echo refused", "2\n0\nrefused\n"},
		{"cd /tmp; ln -s target link; readlink link; echo t > target; cat link; [ -L link ] && echo link; readlink -f link", "target\nt\nlink\n/tmp/target\n"},
		{"cd /tmp; echo '#!/bin/sh\necho script $1' > s; ./s; echo $?; chmod +x s; ./s arg; PATH=/tmp:$PATH; s two; . ./s x", "126\nscript arg\nscript two\nscript x\n"},
		{"cd /tmp; mkdir d; echo c > d/f; tar cf a.tar d; tar tf a.tar; rm -r d; tar xf a.tar; cat d/f; tar czf a.tgz d && rm -r d && tar xzf a.tgz && cat d/f", "d/\nd/f\nc\nc\n"},
		{"ls /; test -d /etc && test -e /bin/sh && [ -x /bin/ls ] && echo ok", "bin\ndev\netc\nhome\nproc\nroot\nrun\ntmp\nusr\nvar\nok\n"},
		{"stat -c '%n %s %F %a' /etc; ls -l / | head -3 | cut -c1-10; du -s /tmp", "/etc 0 directory 755\ntotal 0\ndrwxr-xr-x\ndrwxr-xr-x\n0\t/tmp\n"},
		{"which ls sh nope; command -v cat; command -v cd; type ls", "/bin/ls\n/bin/sh\n/bin/cat\ncd\nls is /bin/ls\n"},
		{"f=$(mktemp); [ -f $f ] && echo made; d=$(mktemp -d); [ -d $d ] && echo dir", "made\ndir\n"},
		{"printf 'a\\nb\\n' > /tmp/x; sed -i 's/a/A/' /tmp/x; cat /tmp/x; grep -r A /tmp; tac /tmp/x; nl /tmp/x | tr -d ' '", "A\nb\n/tmp/x:A\nb\nA\n1\tA\n2\tb\n"},
		{"dd if=/dev/zero of=/tmp/z bs=1k count=3 2>/dev/null; wc -c < /tmp/z; truncate -s 5 /tmp/z; wc -c < /tmp/z; head -c 4 /dev/urandom | wc -c", "3072\n5\n4\n"},
		{"echo x > /dev/stderr; echo y > /dev/stdout; echo z | cat /dev/stdin; cat /dev/null", "y\nz\n"},
		{"chmod 600 /tmp; ls -ld /tmp | cut -c1-10; chmod u=rwx,go+x /tmp; stat -c %a /tmp", "drw-------\n711\n"},
		{"hostname; whoami; id; id -u; uname; echo $HOSTNAME $HOME $PATH | cut -c1-21", "web\nroot\nuid=0(root) gid=0(root) groups=0(root)\n0\nLinux\nweb /root /usr/local/\n"},
		{"cd /tmp; cd ..; pwd; cd -; cd; pwd; cd /nope || echo no", "/\n/tmp\n/root\nno\n"},
		{"echo /e* /[bd]* /nothing*; cd /usr; echo *; set -f; echo *", "/etc /bin /dev /nothing*\nlocal\n*\n"},
		{"(sleep 1; echo tick >> /tmp/log) & tail -f /tmp/log & sleep 2; kill %2; wait", ""},
		{"touch /tmp/log; (sleep 1; echo tick >> /tmp/log) & tail -f /tmp/log & sleep 2; kill %2; wait", "tick\n"},
		{"cmp /etc /tmp; echo a >/tmp/1; echo b >/tmp/2; cmp /tmp/1 /tmp/2; diff -q /tmp/1 /tmp/2", "/tmp/1 /tmp/2 differ: byte 1, line 1\nFiles /tmp/1 and /tmp/2 differ\n"},
		{"ps > /tmp/o; tail -1 /tmp/o | tr -s ' '; echo $$ $PPID; sh -c 'echo $$'", " 1 root 0:00 ps\n1 0\n1\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := sh(t, tt.script); got.out != tt.out {
				t.Errorf("%s\nhas the output %q (%d, %s), want %q", tt.script, got.out, got.code, got.err, tt.out)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		script, err string
		code        int
	}{
		{"nope", "sh: nope: not found\n", 127}, {"/bin/nope", "sh: /bin/nope: not found\n", 127}, {"./nope x", "sh: ./nope: not found\n", 127},
		{"cat /nope", "cat: /nope: No such file or directory\n", 1}, {"cat /etc", "cat: /etc: Is a directory\n", 1}, {"ls /nope", "ls: /nope: No such file or directory\n", 1},
		{"cd /nope", "sh: cd: can't cd to /nope: No such file or directory\n", 1}, {"< /nope", "sh: can't open /nope: No such file or directory\n", 1},
		{"> /nope/x", "sh: can't create /nope/x: No such file or directory\n", 1}, {"echo > /etc", "sh: can't create /etc: Is a directory\n", 1},
		{"echo $((1/0))", "sh: division by zero\n", 1}, {"${x:?message}", "sh: x: message\n", 1}, {"if", "sh: line 1: syntax error: `if` must be followed by a statement list\n", 2},
		{"echo 'x", "sh: line 1: syntax error: reached EOF without closing quote `'`\n", 2}, {"readonly x=1; x=2", "sh: x: is read only\n", 1},
		{"sed 's/a'", "sed: unterminated s command\n", 1}, {"sed k", "sed: the command k is not supported\n", 1}, {"grep", "grep: usage: grep [OPTIONS] PATTERN [FILES]\n", 2},
		{"grep '\\(a\\)\\1' /dev/null", "grep: back-references are not supported\n", 2}, {"ls --frob", "ls: unrecognized option '--frob'\n", 2}, {"rm /tmp", "rm: '/tmp' is a directory\n", 1},
		{"sleep x", "sleep: invalid number 'x'\n", 1}, {"kill 99999", "sh: kill: can't kill pid 99999: No such process\n", 1}, {"echo x >&7", "sh: 7: bad file descriptor\n", 1},
		{"echo x > /dev/full", "echo: write error: No space left on device\n", 1}, {"[ 1 -eq a ]", "sh: a: bad number\n", 2}, {"[ a", "sh: [: missing ]\n", 2},
		{"find / -type x", "find: invalid argument 'x' to '-type'\n", 1}, {"find / ( -name a", "sh: line 1: syntax error: a command can only contain words and redirects; encountered `(`\n", 2}, {"find / '(' -name a", "find: missing ')'\n", 1},
		{"find / -name a -o", "find: the expression ends early\n", 1}, {"find / -newer a", "find: -newer: not supported\n", 1}, {"sort -k 0 /dev/null", "sort: invalid key '0'\n", 2},
		{"ln /tmp/a /tmp/b", "ln: hard links are not supported\n", 1}, {"set -Z", "sh: set: illegal option -Z\n", 2}, {"rm -rf /", "rm: refusing to remove '/'\n", 1},
		{"head -c -1 </dev/null; tr a", "tr: missing operand\n", 1}, {"mv /tmp /tmp/x", "mv: can't rename '/tmp': Invalid argument\n", 1}, {"coproc cat", "sh: *syntax.CoprocClause is not supported\n", 1},
	} {
		if got := sh(t, tt.script); got.err != tt.err || got.code != tt.code {
			t.Errorf("%s\nfails with %q and the code %d, want %q and %d", tt.script, got.err, got.code, tt.err, tt.code)
		}
	}
	s := shell.New(shell.Options{})
	for _, tt := range []struct {
		args []string
		err  string
		code int
	}{
		{[]string{"psql"}, "exec: \"psql\": executable file not found in $PATH\n", 127},
		{[]string{"/opt/run"}, "exec: \"/opt/run\": stat /opt/run: no such file or directory\n", 127},
		{[]string{"/etc"}, "sh: /etc: Is a directory\n", 126},
		{[]string{"sh", "/nope.sh"}, "sh: can't open '/nope.sh': No such file or directory\n", 127},
		{[]string{""}, "exec: \"\": executable file not found in $PATH\n", 127},
	} {
		if got := execute(t, s, newFS(t), "", tt.args...); got.err != tt.err || got.code != tt.code {
			t.Errorf("%q fails with %q and the code %d, want %q and %d", tt.args, got.err, got.code, tt.err, tt.code)
		}
	}
}

// TestVirtualTime: a bubble's time goes on while processes wait for each other.
func TestVirtualTime(t *testing.T) {
	for script, want := range map[string]time.Duration{
		"sleep 3600 | cat": time.Hour, "sleep 3600 | true": time.Hour, "cat < <(sleep 60; echo x)": time.Minute, "x=$(sleep 10; echo y)": 10 * time.Second,
		"sleep 1d & wait": 24 * time.Hour, "(sleep 5; echo a) | while read l; do sleep 2; done": 7 * time.Second, "timeout 30 sleep 300": 30 * time.Second,
		"for i in 1 2 3; do date; sleep 1h; done": 3 * time.Hour, "read -t 9 x < <(sleep 20)": 9 * time.Second, "sleep 3 > >(cat)": 3 * time.Second,
		"touch /tmp/f; tail -f /tmp/f & sleep 100; kill $!": 100 * time.Second, "time sleep 4": 4 * time.Second, "sleep 1 2 0.5": 3500 * time.Millisecond,
		"trap 'exit 0' ALRM; (sleep 8; kill -ALRM $$) & wait": 8 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			if got := sh(t, script); strings.Contains(got.err, "sh:") {
				t.Errorf("%s: %s", script, got.err)
			}
			if d := time.Since(start); d != want {
				t.Errorf("%s takes %v, want %v", script, d, want)
			}
		})
	}
}

func TestSignals(t *testing.T) {
	for _, tt := range []struct {
		script, out string
		exec        bool
		code        int
		takes       time.Duration
	}{
		{"sleep 100", "", false, 143, time.Second}, {"sleep 100", "", true, 129, time.Second}, {"sleep 100 | cat; echo no", "", false, 143, time.Second},
		{"trap 'echo bye; exit 0' TERM; while true; do sleep 3; done", "bye\n", false, 0, 3 * time.Second},
		{"trap 'echo bye; exit 5' TERM; sleep 100 & wait", "bye\n", false, 5, time.Second},
		{"trap '' TERM; sleep 10; echo done", "done\n", false, 0, 10 * time.Second}, {"trap 'echo hup; exit 1' HUP; sleep 4", "hup\n", true, 1, 4 * time.Second},
		{"trap 'echo killed?' EXIT TERM; sleep 60", "killed?\nkilled?\n", false, 0, 60 * time.Second}, {"while :; do :; done", "", false, 2, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, out, stderr := process(newFS(t), "sh", "-c", tt.script)
			p.Exec = tt.exec
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			code := shell.New(shell.Options{Limits: shell.Limits{Steps: 100_000}}).Run(ctx, p)
			if code != tt.code || out.String() != tt.out || time.Since(start) != tt.takes {
				t.Errorf("%s ends after %v with the code %d and %q (%s)", tt.script, time.Since(start), code, out, stderr)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := process(newFS(t), "sh", "-c", "trap '' TERM; sleep 100; sleep 100")
		killed := make(chan struct{})
		p.Killed = killed
		time.AfterFunc(30*time.Second, func() { close(killed) })
		start := time.Now()
		if code := shell.New(shell.Options{}).Run(t.Context(), p); code != 137 || time.Since(start) != 30*time.Second {
			t.Errorf("a killed process ends with the code %d after %v", code, time.Since(start))
		}
	})
}

// TestProcessesOfAContainer: commands that are executed in a container see its main process and can end it.
func TestProcessesOfAContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fs := shell.New(shell.Options{}), newFS(t)
		p, _, _ := process(fs, "sh", "-c", "trap 'exit 42' TERM; while sleep 1; do :; done")
		done := make(chan int)
		go func() { done <- s.Run(t.Context(), p) }()
		synctest.Wait()
		other, out, _ := process(fs, "sh", "-c", "ps | grep -c '[s]leep 1'; kill 1")
		other.Exec = true
		if code := s.Run(t.Context(), other); code != 0 || out.String() != "1\n" {
			t.Errorf("kill 1: %d, %q", code, out)
		}
		if code := <-done; code != 42 {
			t.Errorf("the main process ends with the code %d", code)
		}
	})
}

func TestScriptLimits(t *testing.T) {
	limits := shell.Limits{Steps: 200_000, Memory: 256 << 10}
	for script, want := range map[string]string{
		"while :; do :; done":                  "sh: more than 200000 steps without waiting\n",
		"f() { f; }; f":                        "sh: more than 200 functions, subshells and scripts in each other\n",
		"x='eval \"$x\"'; eval \"$x\"":         "sh: more than 200 functions, subshells and scripts in each other\n",
		"x=aaaaaaaa; while :; do x=$x$x; done": "sh: the variables and functions have more than 262144 bytes\n",
		"x=$(yes)":                             "sh: the output of a command substitution has more than 262144 bytes\n",
		"yes > /dev/null":                      "sh: more than 200000 steps without waiting\n",
		"cat /dev/zero > /dev/null":            "sh: more than 200000 steps without waiting\n",
		"i=0; while :; do i=$((i+1)); eval v$i=xxxxxxxx; done":                                     "sh: the variables and functions have more than 262144 bytes\n",
		"x=$(head -c 50000 /dev/zero | tr '\\0' a); y=${x//a/$x}":                                  "sh: an expansion with a pattern is too large\n",
		"set -- a b c d e f; while :; do set -- \"$@\" \"$@\"; done":                               "sh: the arguments have more than 262144 bytes\n",
		"echo {1..100}{1..100}{1..100}":                                                            "sh: brace expansion would exceed 16384 elements\n",
		"for i in 1 2; do sleep 1000 & done; for i in $(seq 200); do sleep 10000 & done":           "sh: fork: the container has 100 processes, and no more are allowed\n",
		"printf %1000000000d 1":                                                                    "printf: a width is too large\n",
		"cat /dev/zero | sort":                                                                     "sh: a line has more than 262144 bytes\n",
		"yes $(seq 1000) > /tmp/f":                                                                 "yes: write error: No space left on device\n",
		"mkdir /tmp/d; cd /tmp/d; ln -s . a; ln -s . b; ln -s . c; echo */*/*/*/*/*/*/*/*/*/*/*/*": "sh: a pattern looks at more than 100000 files\n",
		strings.Repeat("(", 10_000):                                                                "sh: syntax error: more than 500 brackets in each other\n",
		strings.Repeat("if ", 10_000):                                                              "sh: syntax error: more than 500 commands in each other\n",
		strings.Repeat("echo $(", 10_000):                                                          "sh: syntax error: more than 500 brackets in each other\n",
		strings.Repeat("! ", 10_000):                                                               "sh: syntax error: more than 500 commands in each other\n",
		"expr $(yes '(' | head -n 1000)":                                                           "expr: too many operators in each other\n",
		"head -c 200000 /dev/zero > /tmp/z; hexdump -C $(yes /tmp/z | head -n 9)":                  "sh: hexdump: the input has more than 1048576 bytes\n",
		"#" + strings.Repeat("x", 300<<10):                                                         "sh: the script has more than 262144 bytes\n",
		":() { : | : & }; :":                                                                       "",
	} {
		synctest.Test(t, func(t *testing.T) {
			got := execute(t, shell.New(shell.Options{Limits: limits}), newFS(t), "", "sh", "-c", script)
			if first, _, _ := strings.Cut(got.err, "\n"); want != "" && (first+"\n" != want || got.code == 0 && !strings.Contains(want, "fork")) {
				t.Errorf("%.80s\nfails with %.200q and the code %d, want %q", script, got.err, got.code, want)
			}
		})
	}
}

// TestHandlers: a handler of a command goes before the programs.
func TestHandlers(t *testing.T) {
	var h runtime.Handlers
	h.HandleExec(runtime.Selector{Command: "psql"}, func(ctx context.Context, p *runtime.Process) int {
		input, _ := io.ReadAll(p.Stdin)
		fmt.Fprintf(p.Stdout, "%s in %s with %s", strings.Join(p.Args, " "), p.Dir, input)
		return 3
	})
	s := shell.New(shell.Options{Find: func(p *runtime.Process) runtime.Handler { return h.Find(p, nil) }})
	got := execute(t, s, newFS(t), "", "sh", "-c", "cd /tmp; echo select 1 | psql -c x; echo $?")
	if want := "psql -c x in /tmp with select 1\n3\n"; got.out != want {
		t.Errorf("got %q, want %q (%s)", got.out, want, got.err)
	}
}

// TestStandardInput: programs read what a client writes, and a script may read the lines after it.
func TestStandardInput(t *testing.T) {
	s := shell.New(shell.Options{})
	for _, tt := range []struct{ stdin, out string }{
		{"echo one\nread x\nvalue\necho $x\n", "one\nvalue\n"}, {"if true\nthen\necho multi\nfi\ncat <<E\nhere\nE\n", "multi\nhere\n"},
		{"f() {\necho in f\n}\nf\nexit 3\necho no\n", "in f\n"}, {"echo no newline", "no newline\n"}, {"cat\nrest\n", "rest\n"},
	} {
		if got := execute(t, s, newFS(t), tt.stdin, "sh"); got.out != tt.out || got.err != "" {
			t.Errorf("%q has the output %q (%s), want %q", tt.stdin, got.out, got.err, tt.out)
		}
	}
	if got := execute(t, s, newFS(t), "", "cat"); got.out != "" || got.code != 0 {
		t.Errorf("cat of nothing: %+v", got)
	}
	large := strings.Repeat("0123456789abcdef", 1<<16)
	if got := execute(t, s, newFS(t), large, "cat"); got.out != large {
		t.Errorf("cat of %d bytes returns %d (%s)", len(large), len(got.out), got.err)
	}
}

func TestTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, keys := io.Pipe()
		p, out, _ := process(newFS(t), "sh")
		p.TTY, p.Stdin = true, in
		sizes := make(chan runtime.TerminalSize, 1)
		p.Resize = sizes
		sizes <- runtime.TerminalSize{Width: 80, Height: 24}
		done := make(chan int)
		go func() { done <- shell.New(shell.Options{}).Run(t.Context(), p) }()
		synctest.Wait()
		sizes <- runtime.TerminalSize{Width: 100, Height: 40}
		synctest.Wait()
		for _, step := range []struct{ keys, shows string }{
			{"stty -echo; stty size\r", "/ # stty -echo; stty size\r\n40 100\r\n"},
			{"stty size </dev/null\r", "/ # stty size </dev/null\r\nstty: standard input: Not a tty\r\n"}, {"echo hx\x7fi\r", "/ # echo hx\b \bi\r\nhi\r\n"}, {"cd /tmp\r", "/ # cd /tmp\r\n"}, {"sleep 1000\r", "/tmp # sleep 1000\r\n"}, {"\x03", "^C\r\n"},
			{"echo $?\r", "/tmp # echo $?\r\n130\r\n"}, {"cat\r", "/tmp # cat\r\n"}, {"line\r", "line\r\nline\r\n"}, {"\x04", ""}, {"typed\x15tty\r", "/tmp # typed" + strings.Repeat("\b \b", 5) + "tty\r\n/dev/pts/0\r\n"},
			{"abc\x03", "/tmp # abc^C\r\n"}, {"if\r", "/tmp # if\r\n"}, {"true; then echo y; fi\r", "> true; then echo y; fi\r\ny\r\n"}, {"sleep 50 | cat\r", "/tmp # sleep 50 | cat\r\n"}, {"\x03", "^C\r\n"}, {"exit 7\r", "/tmp # exit 7\r\n"},
		} {
			before := len(withoutPrompt(out.String()))
			io.WriteString(keys, step.keys)
			synctest.Wait()
			if shown := withoutPrompt(out.String()[before:]); shown != step.shows {
				t.Errorf("%q shows %q, want %q", step.keys, shown, step.shows)
			}
		}
		if code := <-done; code != 7 {
			t.Errorf("the shell ends with the code %d", code)
		}
		keys.Close()
	})
}

// withoutPrompt returns the output of a terminal before the prompt at its end.
func withoutPrompt(s string) string {
	for _, prompt := range []string{"/tmp # ", "/ # ", "> "} {
		if rest, ok := strings.CutSuffix(s, prompt); ok {
			return rest
		}
	}
	return s
}

// TestHostIsUntouched executes what could reach the host, and finds the files, variables, processes and ports of the container
// only.
func TestHostIsUntouched(t *testing.T) {
	secret := "host-secret-4711"
	t.Setenv("FLYBALL_HOST_SECRET", secret)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("HOME", dir)
	file := dir + "/secret"
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := os.ReadFile("/etc/passwd")
	if err != nil || len(users) == 0 {
		t.Fatalf("the host has the users %q, %v", users, err)
	}
	before, err := os.ReadDir("/")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fs := newFS(t)
	s := shell.New(shell.Options{})
	const up = "../../../../../../../../../.."
	for script, want := range map[string]result{
		"cat /etc/passwd":                            {"", "cat: /etc/passwd: No such file or directory\n", 1},
		"cat " + up + "/etc/passwd":                  {"", "cat: " + up + "/etc/passwd: No such file or directory\n", 1},
		"cd /tmp && cat " + up + file:                {"", "cat: " + up + file + ": No such file or directory\n", 1},
		"cat < /proc/self/root/etc/passwd":           {"", "sh: can't open /proc/self/root/etc/passwd: No such file or directory\n", 1},
		"ln -s /etc/passwd /tmp/a && cat /tmp/a":     {"", "cat: /tmp/a: No such file or directory\n", 1},
		"ln -s " + up + file + " /b && cat /b":       {"", "cat: /b: No such file or directory\n", 1},
		"ln -s " + up + " /tmp/c && ls /tmp/c" + dir: {"", "ls: /tmp/c" + dir + ": No such file or directory\n", 1},
		"ln -s / /tmp/d && cat /tmp/d/etc/passwd":    {"", "cat: /tmp/d/etc/passwd: No such file or directory\n", 1},
		"cat < /dev/tcp/127.0.0.1/" + port:           {"", "sh: can't open /dev/tcp/127.0.0.1/" + port + ": No such file or directory\n", 1},
		"exec 3<>/dev/tcp/127.0.0.1/" + port:         {"", "sh: can't create /dev/tcp/127.0.0.1/" + port + ": No such file or directory\n", 1},
		"echo x > /dev/udp/127.0.0.1/" + port:        {"", "sh: can't create /dev/udp/127.0.0.1/" + port + ": No such file or directory\n", 1},
		"nc 127.0.0.1 " + port:                       {"", "nc: 127.0.0.1: Network is unreachable\n", 1},
		"wget -q 127.0.0.1:" + port:                  {"", "wget: can't connect to remote host: Network is unreachable\n", 1},
		"curl -sS http://localhost:" + port:          {"", "curl: (7) Failed to connect to localhost port " + port + " after 0 ms: Could not connect to server\n", 7},
		"curl -s -d @" + file + " localhost:" + port: {"", "curl: option -d: Failed to open " + file + "\n", 2},
	} {
		if got := execute(t, s, fs, "", "sh", "-c", script); got != want {
			t.Errorf("%s\nhas %+v, want %+v", script, got, want)
		}
	}
	for _, script := range []string{
		"cat /etc/passwd /etc/hostname /proc/self/environ /proc/1/environ", "ls -la / /etc /root /home /proc /sys", "> /flyball-x; mkdir /flyball-y; touch " + dir + "/z", "curl file://" + file + "; wget " + file + "; nc -l 1; ssh x; python -c x; go version; /usr/bin/env; /bin/cat " + file,
		"cat " + file + "; . " + file + "; source " + file + "; sh " + file + "; bash < " + file, "echo $(cat " + file + ") `cat " + file + "` $(<" + file + ")", "cat <(cat " + file + "); echo x > >(tee " + dir + "/w)", "cat <<E\n$(<" + file + ")\nE",
		"exec cat " + file, "exec < " + file + "; cat", "exec > " + dir + "/o; echo x", "cd /proc; ls; cd " + dir + "; pwd; ls; cat secret", "cd /proc/self/root; ls; pwd -P", "echo " + dir + "/* /proc/* /sys/* ~ ~root ~daemon ~nobody ~" + os.Getenv("USER"), "echo $HOME $TMPDIR $USER $UID $EUID $GID $PPID $$ $FLYBALL_HOST_SECRET ${!FLYBALL*}; env; export; set; declare -p",
		"kill -9 " + fmt.Sprint(os.Getpid()) + "; kill -9 -1; kill " + fmt.Sprint(os.Getppid()), "type secret gosh go; command -v go; which go; hash -r", "test -e " + file + " && echo EXISTS; [ -d " + dir + " ] && echo EXISTS; [[ -f " + file + " ]] && echo EXISTS",
		"mkfifo " + dir + "/fifo; ln -s " + dir + " /l; cat /l/secret", "tar cf - " + dir + "; find " + dir + "; grep -r . " + dir + "; dd if=" + file, "PATH=/usr/bin:/bin:" + dir + " secret; PATH=$PATH:/usr/local/go/bin; go env", "read x < " + file + "; echo $x; while read l; do echo $l; done < " + file,
		"umask; ulimit -a; times; hostname; id; whoami; uname -a; df; mount", "cat /dev/tcp/127.0.0.1/" + port + "; cat < /dev/tcp/localhost/" + port + "; exec 3<>/dev/tcp/127.0.0.1/" + port + "; nc -l -p " + port, "eval \"cat " + file + "\"; trap 'cat " + file + "' EXIT", "tee " + dir + "/t < /dev/null; cp " + file + " /tmp; mv " + file + " /tmp; rm -rf " + dir + "; rm -rf /*",
	} {
		got := execute(t, s, fs, "", "sh", "-c", script)
		for what, found := range map[string]string{"output": got.out, "errors": got.err} {
			if strings.Contains(found, secret) || strings.Contains(found, "EXISTS") || strings.Contains(found, string(users)) {
				t.Errorf("%s\nhas in its %s: %s", script, what, found)
			}
		}
	}
	own, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := listener.Accept() // connections are accepted in their order
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("a script has connected to a port of the host")
	}
	if text, err := os.ReadFile(file); string(text) != secret {
		t.Errorf("the file of the host has %q, %v", text, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory of the host has %v, %v", entries, err)
	}
	after, err := os.ReadDir("/")
	if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the root of the host has %v, and had %v", after, before)
	}
}

// TestPIDsAreTheContainers: the number of a process is not one of the host.
func TestPIDsAreTheContainers(t *testing.T) {
	if got := sh(t, "echo $$ $PPID $BASHPID; true & echo $!"); got.out != "1 0 1\n2\n" {
		t.Errorf("got %q", got.out)
	}
}

func TestConcurrentProcesses(t *testing.T) {
	s, fs := shell.New(shell.Options{Limits: shell.Limits{Processes: 1000}}), newFS(t)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			p, out, _ := process(fs, "sh", "-c", fmt.Sprintf("echo %d > /tmp/%d; (cat /tmp/%d | sort) | cat; (exit 3) & wait $!", i, i, i))
			p.Exec = true
			if code := s.Run(t.Context(), p); code != 3 || out.String() != fmt.Sprintln(i) {
				t.Errorf("%d: %d, %q", i, code, out)
			}
		})
	}
	wg.Wait()
}

// TestArchives copies files out of a container and into another one, as kubectl cp does.
func TestArchives(t *testing.T) {
	s, from, to := shell.New(shell.Options{}), newFS(t), newFS(t)
	made := execute(t, s, from, "", "sh", "-c", "mkdir -p /data/sub; echo a > /data/a; head -c 200000 /dev/urandom > /data/sub/large; chmod 600 /data/a; ln -s a /data/link")
	if made.code != 0 {
		t.Fatal(made.err)
	}
	packed := execute(t, s, from, "", "tar", "cf", "-", "/data")
	if packed.code != 0 {
		t.Fatal(packed.err)
	}
	if got := execute(t, s, to, packed.out, "tar", "-xmf", "-", "-C", "/tmp"); got.code != 0 || got.err != "" {
		t.Fatal(got)
	}
	digest := "cat a link | md5sum; md5sum < sub/large; stat -c %a a"
	want := execute(t, s, from, "", "sh", "-c", "cd /data; "+digest)
	if got := execute(t, s, to, "", "sh", "-c", "cd /tmp/data; "+digest); got != want {
		t.Errorf("the copy has %+v, want %+v", got, want)
	}
}

// FuzzScript executes any script. No script may reach an internal error, go on without end or leave a goroutine.
func FuzzScript(f *testing.F) {
	for _, s := range scripts {
		f.Add(s.script, "")
	}
	f.Add("cat", "input")
	f.Add("declare -n x=x; echo $x", "")
	f.Add("echo ${x[@]:1:2} ${#x[*]} ${!x} ${x@Q}", "")
	f.Fuzz(func(t *testing.T, script, stdin string) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			p, out, err := process(newFS(t), "sh", "-c", script)
			p.Stdin = strings.NewReader(stdin)
			p.Killed = ctx.Done()
			s := shell.New(shell.Options{Limits: shell.Limits{Steps: 20_000, Memory: 64 << 10, Processes: 20}})
			code := s.Run(ctx, p)
			if strings.Contains(err.String(), "internal error") || strings.Contains(out.String(), "internal error") && !strings.Contains(script, "internal") {
				t.Errorf("%q: %s%s", script, err, out)
			}
			if code < 0 || code > 255 {
				t.Errorf("%q: the exit code %d", script, code)
			}
		})
	})
}

func BenchmarkLoop(b *testing.B) {
	s, fs := shell.New(shell.Options{Limits: shell.Limits{Steps: 1 << 40}}), newFS(b)
	execute(b, s, fs, "", "sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); done", b.N))
}

func BenchmarkCommand(b *testing.B) {
	s, fs := shell.New(shell.Options{}), newFS(b)
	for b.Loop() {
		if got := execute(b, s, fs, "", "sh", "-c", "exit 3"); got.code != 3 {
			b.Fatal(got)
		}
	}
}

// commandOf returns the arguments in a text. After a bar, the rest is one argument.
func commandOf(text string) []string {
	head, script, has := strings.Cut(text, "|")
	args := strings.Fields(head)
	if has {
		args = append(args, script)
	}
	return args
}

func TestKnows(t *testing.T) {
	s := shell.New(shell.Options{})
	for command, want := range map[string]bool{
		"sleep 10": true, "/bin/sleep 10": true, "/opt/sleep": false, "nginx": false, "tail -f /dev/null": true, "sh": true, "sh -i": true, "true": true,
		"sh -c|exit 3": true, "sh -ec|echo a; false": true, "/bin/bash -c|while true; do date; sleep 1; done": true, "sh -c|exec /manager": false, "sh -c|nginx -g 'daemon off;'": false,
		"sh -c|until nc -z db 1; do sleep 1; done": false, "sh -c|f() { echo; }; f": true, "sh -c|$cmd x": false, "sh -c|\"$@\"": false, "sh -c|x=$(hostname) && echo $x": true,
		"sh -c|echo $(curl x)": false, "sh -c|. /env; run": false, "sh /script.sh": false, "env A=b sleep 1": true, "env A=b nginx": false, "timeout 5 sleep 1": true, "timeout 5 nginx": false,
		"sh -c|sh -c 'sh -c nginx'": false, "sh -c|eval 'echo x'": true, "sh -c|eval \"$x\"": true, "sh -c|if then": true, "sh -c|command -v curl": true, "wget -q web:80": false, "curl web": false, "sh -c|echo a | xargs -n 1 echo": true,
		"sh -c|'ec'ho x": true, "sh -c|trap 'exit 0' TERM; sleep infinity & wait": true, "env": true, "sh -c": true, "nc -lk -p 80 -e /app": true, "nc -l 80": true, "nc db 80": false, "/app": false,
	} {
		args := commandOf(command)
		if got := s.Knows(args, nil, nil, false); got != want {
			t.Errorf("%q is known: %v", args, got)
		}
	}
	has := func(name string) bool { return name == "/app" || name == "ctl" }
	for command, want := range map[string]bool{"/app x": true, "ctl": true, "/other": false, "sh -c|ctl a; echo": true, "sh -c|ctl a; /other": false} {
		args := commandOf(command)
		if got := s.Knows(args, has, nil, false); got != want {
			t.Errorf("%q is known in an image: %v", args, got)
		}
	}
	lacks := func(name string) bool { return strings.HasPrefix(name, "/image") }
	for command, want := range map[string]bool{
		"cp /image/app /volume": false, "/bin/cp -n /image/app /volume/app": false, "mv /volume/a /image/b /volume": false, "cp /volume/a /image/b": true,
		"cp a b": true, "cp /image/app": true, "cp": true, "cp /bin/cat /image/cat": true, "cat /image/app": true,
		"sh -c|cp /image/app /volume && ln -s app /volume/b": false, "sh -c|echo x > /image/app; cp /image/app /volume": true,
		"sh -c|tar -C /image -x; cp /image/a/b /volume": true, "sh -c|cp /volume/a /image; cp /image/a /volume/b": true, "sh -c|sh -c 'cp /image/app /volume'": false,
	} {
		args := commandOf(command)
		if got := s.Knows(args, nil, lacks, false); got != want {
			t.Errorf("%q is known without the files of the image: %v", args, got)
		}
	}
	for command, want := range map[string]bool{
		"wget web:80": true, "/usr/bin/curl -f web": true, "timeout 5 curl web": true, "sh -c|wget -qO- web | grep ok": true, "sh -c|x=$(curl web) && echo $x": true,
		"sh -c|until wget -q web; do sleep 1; done": false, "sh -c|while true; do curl web; done": false, "sh -c|for i in 1 2; do curl web && break; done": false,
		"sh -c|ask() { curl web; }; until ask; do sleep 1; done": false, "sh -c|while :; do sleep 1; done; curl web": true, "nc web 80": false, "sh -c|curl web; nginx": false,
		"curl --retry 5 --retry-delay 1 -u a:b -OGg web": true, "wget -c -P /tmp -nc web": true, "curl --fail-early web": false, "curl -s? web": false, "wget --waitretry=1 web": false,
		"sh -c|curl --fail-with-body web || true": false, "sh -c|curl \"$options\" web": true, "timeout 5 /usr/bin/wget -r web": false,
	} {
		args := commandOf(command)
		if got := s.Knows(args, nil, nil, true); got != want {
			t.Errorf("%q is known where it may ask: %v", args, got)
		}
	}
	if s.Knows(nil, nil, nil, true) || s.Knows([]string{""}, nil, nil, true) {
		t.Error("no command is known")
	}
}

// pipeListener is a listener of pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (io.ReadWriteCloser, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// TestTimedReadOfConnection: a read -t that gets nothing leaves the connection open, and the next read gets what comes.
func TestTimedReadOfConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		s := shell.New(shell.Options{Listen: func(*runtime.Process, int32) (shell.Listener, error) { return l, nil }})
		p, out, stderr := process(newFS(t), "sh", "-c", `nc -l -p 80 -e sh -c 'read -t 1 x; echo "$? $x"; read -t 1 x; echo "$? $x"; read x; echo "$? $x"; read -n 1 x; read y; echo "$x $y"'`)
		code := make(chan int, 1)
		go func() { code <- s.Run(t.Context(), p) }()
		client, server := net.Pipe()
		l.conns <- server
		for _, step := range []struct{ send, want string }{{"", "142 \n"}, {"", "142 \n"}, {"a\n", "0 a\n"}, {"bcd\n", "b cd\n"}} {
			if _, err := io.WriteString(client, step.send); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, len(step.want))
			if _, err := io.ReadFull(client, b); err != nil || string(b) != step.want {
				t.Fatalf("after %q: %q, %v; %s%s", step.send, b, err, out, stderr)
			}
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after the program: %v", err)
		}
		if got := <-code; got != 0 {
			t.Errorf("exit code %d", got)
		}
		client.Close()
	})
}

// TestListen: nc answers connections by a program, several at once, and ends with its process.
func TestListen(t *testing.T) {
	for name, tt := range map[string]struct{ command, send, want string }{
		"program":  {`nc -lk -p 80 -e sh -c 'read x; sleep 1; echo "got $x"'`, "a\n", "got a\n"},
		"port":     {`nc -lk 80 -e cat`, "", ""},
		"itself":   {`echo hello | nc -l -p 80`, "", "hello\n"},
		"function": {`nc -lkp 80 -e sh -c 'echo $0 $1' x y`, "", "x y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
				s := shell.New(shell.Options{Listen: func(_ *runtime.Process, port int32) (shell.Listener, error) {
					if port != 80 {
						t.Errorf("port %d", port)
					}
					return l, nil
				}})
				p, out, stderr := process(newFS(t), "sh", "-c", tt.command)
				ctx, cancel := context.WithCancel(t.Context())
				code := make(chan int, 1)
				go func() { code <- s.Run(ctx, p) }()
				var clients []net.Conn
				for range 2 {
					client, server := net.Pipe()
					select {
					case l.conns <- server:
						clients = append(clients, client)
					case <-l.closed: // without -k
					}
				}
				for i, c := range clients {
					if tt.send != "" {
						io.WriteString(c, tt.send)
					}
					if tt.want == "" {
						c.Close()
						continue
					}
					b := make([]byte, len(tt.want))
					if _, err := io.ReadFull(c, b); err != nil || string(b) != tt.want {
						t.Errorf("connection %d: %q, %v; %s%s", i, b, err, out, stderr)
					}
					c.Close()
				}
				cancel()
				<-code
				<-l.closed
			})
		})
	}
	if got := sh(t, "nc -l -p 80"); got.code != 1 || !strings.Contains(got.err, "Cannot assign requested address") && !strings.Contains(got.err, "annot assign") {
		t.Errorf("without a network: %+v", got)
	}
	if got := sh(t, "nc db 80; nc -l -p x"); !strings.Contains(got.err, "etwork is unreachable") || !strings.Contains(got.err, "bad port 'x'") {
		t.Errorf("%+v", got)
	}
}
