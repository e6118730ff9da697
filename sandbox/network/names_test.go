package network

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
)

func addresses(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

func testDirectory() *Directory {
	return NewDirectory([]Service{
		{Namespace: "default", Name: "kubernetes", Address: netip.MustParseAddr("10.96.0.1")},
		{Namespace: "ns", Name: "web", Address: netip.MustParseAddr("10.96.7.7")},
		{Namespace: "ns", Name: "workers", Hosts: []Host{
			{Name: "w-0", Address: netip.MustParseAddr("10.244.0.5")},
			{Name: "w-1", Address: netip.MustParseAddr("10.244.1.5")},
			{Address: netip.MustParseAddr("10.244.1.5")}, // in two slices
		}},
		{Namespace: "ns", Name: "idle"},
	})
}

func ask(t *testing.T, n *Names, name string, kind dnsmessage.Type, limit int) (dnsmessage.Message, []netip.Addr) {
	t.Helper()
	question := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 77, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	query, err := question.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var reply dnsmessage.Message
	if err := reply.Unpack(n.answer(query, limit)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if reply.ID != 77 || !reply.Response || len(reply.Questions) != 1 || reply.Questions[0] != question.Questions[0] {
		t.Errorf("%s: not the answer to what was asked: %+v", name, reply.Header)
	}
	var out []netip.Addr
	for _, a := range reply.Answers {
		out = append(out, netip.AddrFrom4(a.Body.(*dnsmessage.AResource).A))
	}
	return reply, out
}

func TestWhatNamesMean(t *testing.T) {
	names := &Names{Directory: testDirectory}
	const missing, there = dnsmessage.RCodeNameError, dnsmessage.RCodeSuccess
	for _, c := range []struct {
		name string
		code dnsmessage.RCode
		want []netip.Addr
	}{
		{"web.ns.", there, addresses("10.96.7.7")},
		{"web.ns.svc.", there, addresses("10.96.7.7")},
		{"web.ns.svc.cluster.local.", there, addresses("10.96.7.7")},
		{"WEB.Ns.svc.Cluster.Local.", there, addresses("10.96.7.7")},
		{"kubernetes.default.svc.", there, addresses("10.96.0.1")},
		{"workers.ns.svc.cluster.local.", there, addresses("10.244.0.5", "10.244.1.5")},
		{"w-1.workers.ns.svc.cluster.local.", there, addresses("10.244.1.5")},
		{"w-2.workers.ns.svc.cluster.local.", missing, nil},
		{"w-0.web.ns.svc.cluster.local.", missing, nil},
		{"idle.ns.svc.cluster.local.", there, nil},
		{"10-244-3-9.ns.pod.cluster.local.", there, addresses("10.244.3.9")},
		{"192-168-3-9.ns.pod.cluster.local.", missing, nil},
		{"web.other.", missing, nil},
		{"web.", missing, nil},
		{"web.ns.cluster.local.", missing, nil},
		{"web.ns.ns.svc.cluster.local.", missing, nil}, // what the search list tries first
		{"ns.svc.cluster.local.", missing, nil},
		{"huggingface.co.", missing, nil},
		{".", missing, nil},
	} {
		reply, got := ask(t, names, c.name, dnsmessage.TypeA, 512)
		if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || reply.RCode != c.code {
			t.Errorf("%s: %v, want %v; addresses (-want +got):\n%s", c.name, reply.RCode, c.code, diff)
		}
	}
}

func TestANameWithoutTheKindOfAddressAskedForIsStillThere(t *testing.T) {
	names := &Names{Directory: testDirectory}
	reply, got := ask(t, names, "web.ns.svc.cluster.local.", dnsmessage.TypeAAAA, 512)
	if reply.RCode != dnsmessage.RCodeSuccess || len(got) != 0 {
		t.Errorf("AAAA: %v with %v; a client would not ask for A", reply.RCode, got)
	}
}

func TestWhileNothingIsKnownNothingIsSaidToBeMissing(t *testing.T) {
	names := &Names{Directory: func() *Directory { return nil }}
	if reply, _ := ask(t, names, "web.ns.", dnsmessage.TypeA, 512); reply.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("%v", reply.RCode)
	}
}

func TestAnAnswerThatIsTooLongForAPacketIsAskedForAgain(t *testing.T) {
	many := Service{Namespace: "ns", Name: "many"}
	for i := range 60 {
		many.Hosts = append(many.Hosts, Host{Address: netip.AddrFrom4([4]byte{10, 244, 0, byte(i)})})
	}
	names := &Names{Directory: func() *Directory { return NewDirectory([]Service{many}) }}
	if reply, got := ask(t, names, "many.ns.", dnsmessage.TypeA, 512); !reply.Truncated || len(got) > 0 {
		t.Errorf("packet: truncated %v, %d addresses", reply.Truncated, len(got))
	}
	if reply, got := ask(t, names, "many.ns.", dnsmessage.TypeA, 65535); reply.Truncated || len(got) != 60 {
		t.Errorf("stream: truncated %v, %d addresses", reply.Truncated, len(got))
	}
}

func TestWhatIsNoQuestionIsNotAnswered(t *testing.T) {
	names := &Names{Directory: testDirectory}
	answered, err := (&dnsmessage.Message{Header: dnsmessage.Header{Response: true}}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for name, query := range map[string][]byte{"nothing": nil, "noise": []byte("GET / HTTP/1.1"[:9]), "an answer": answered} {
		if reply := names.answer(query, 512); reply != nil {
			t.Errorf("%s: answered", name)
		}
	}
}

func TestThePodsOfANamespaceFindItsServicesByTheirNameAlone(t *testing.T) {
	text := ResolvConf("ns")
	for _, want := range []string{"search ns.svc.cluster.local svc.cluster.local cluster.local\n", "nameserver 10.96.0.10\n", "ndots:5"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	query, err := (&dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("web.ns."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}).Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(query)
	names := &Names{Directory: testDirectory}
	f.Fuzz(func(t *testing.T, query []byte) {
		reply := names.answer(query, 512)
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil || !m.Response {
			t.Errorf("%x: answered with %x: %v", query, reply, err)
		}
	})
}
