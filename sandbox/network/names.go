package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// answerTTL is how long an answer may be kept. Endpoints come and go.
const answerTTL = 5

// Names answers what services and pods are called. directory gives the present one, or
// nil while it is not known.
type Names struct {
	Directory func() *Directory
}

// Serve answers at an address, over UDP and TCP, until ctx ends.
func (n *Names) Serve(ctx context.Context, at netip.AddrPort) error {
	packets, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return fmt.Errorf("listening for names: %w", err)
	}
	streams, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		_ = packets.Close()
		return fmt.Errorf("listening for names: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = packets.Close(); _ = streams.Close() })
	go n.servePackets(packets)
	go n.serveStreams(streams)
	return nil
}

func (n *Names) servePackets(conn *net.UDPConn) {
	buffer := make([]byte, 64<<10)
	for {
		size, from, err := conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if reply := n.answer(buffer[:size], 512); reply != nil {
			_, _ = conn.WriteToUDPAddrPort(reply, from)
		}
	}
}

func (n *Names) serveStreams(l *net.TCPListener) {
	for {
		conn, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go n.serveStream(conn)
	}
}

func (n *Names) serveStream(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	for {
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		var size uint16
		if binary.Read(conn, binary.BigEndian, &size) != nil {
			return
		}
		query := make([]byte, size)
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		reply := n.answer(query, 64<<10-1)
		if reply == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// answer is the reply to a message of at most limit bytes, or nil when it is no
// question at all.
func (n *Names) answer(query []byte, limit int) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return nil
	}
	reply := dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, OpCode: header.OpCode, RecursionDesired: header.RecursionDesired, RecursionAvailable: true}
	question, err := parser.Question()
	if err != nil {
		reply.RCode = dnsmessage.RCodeFormatError
		return pack(reply, nil, nil)
	}
	if header.OpCode != 0 {
		reply.RCode = dnsmessage.RCodeNotImplemented
		return pack(reply, &question, nil)
	}
	directory := n.Directory()
	if directory == nil {
		reply.RCode = dnsmessage.RCodeServerFailure
		return pack(reply, &question, nil)
	}
	addresses, found := resolve(directory, question.Name.String())
	if !found {
		reply.RCode = dnsmessage.RCodeNameError
	}
	// A name that is there and has no address of the kind asked for is no error: a
	// client would take the name to be missing, and not ask for the other kind.
	if question.Type != dnsmessage.TypeA && question.Type != dnsmessage.TypeALL {
		addresses = nil
	}
	message := pack(reply, &question, addresses)
	if len(message) > limit {
		reply.Truncated = true
		return pack(reply, &question, nil)
	}
	return message
}

func pack(header dnsmessage.Header, question *dnsmessage.Question, addresses []netip.Addr) []byte {
	m := dnsmessage.Message{Header: header}
	if question != nil {
		m.Questions = []dnsmessage.Question{*question}
		for _, a := range addresses {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: answerTTL},
				Body:   &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// resolve finds svc.ns, svc.ns.svc, svc.ns.svc.cluster.local, host.svc.ns.svc and
// 1-2-3-4.ns.pod. Whatever else there is in the world is not found.
func resolve(d *Directory, name string) ([]netip.Addr, bool) {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	name, whole := strings.CutSuffix(name, "."+Domain)
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	switch {
	case len(labels) == 2 && !whole && last != "svc" && last != "pod":
		return d.lookup(labels[1], labels[0], "")
	case len(labels) == 3 && last == "svc":
		return d.lookup(labels[1], labels[0], "")
	case len(labels) == 4 && last == "svc":
		return d.lookup(labels[2], labels[1], labels[0])
	case len(labels) == 3 && last == "pod":
		address, err := netip.ParseAddr(strings.ReplaceAll(labels[0], "-", "."))
		if err != nil || !Pods.Contains(address) {
			return nil, false
		}
		return []netip.Addr{address}, true
	}
	return nil, false
}
