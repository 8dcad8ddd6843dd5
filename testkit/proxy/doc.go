// Package proxy is a TCP proxy that breaks connections as a test tells it.
//
//	p := proxy.New(t, db.URL(""))        // the service connects to p.URL(db.URL(role))
//	lost := p.When(proxy.ToServer, proxy.Commit, func(c *proxy.Conn) { c.CutAt(proxy.ToClient) })
//	…                                    // the service's COMMIT arrives, its answer does not
//	<-lost
//
// Each direction of a connection passes bytes, or holds them (the network is stuck; nothing
// is lost, the sender's buffers fill), or drops them (they are read and thrown away), or cuts
// the connection at the next ones. Nobody is told of a hold or a drop, as in a network that
// is partitioned; Cut and Refuse are what a server does that dies.
package proxy
