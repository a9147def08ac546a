#pragma once
#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <openssl/ecdsa.h>
#include <openssl/crypto.h>

// OpenSSL spells these as macros, which Swift cannot call.
static inline int push_SSL_CTX_set_min_proto_version(SSL_CTX *context, int version) { return SSL_CTX_set_min_proto_version(context, version); }
static inline long push_SSL_CTX_set_mode(SSL_CTX *context, long mode) { return SSL_CTX_set_mode(context, mode); }
static inline long push_SSL_CTX_set_session_cache_mode(SSL_CTX *context, long mode) { return SSL_CTX_set_session_cache_mode(context, mode); }
static inline int push_SSL_set_tlsext_host_name(SSL *session, const char *name) { return (int)SSL_set_tlsext_host_name(session, name); }
static inline long push_BIO_get_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }
static inline int push_BIO_reset(BIO *bio) { return (int)BIO_reset(bio); }
static inline long push_BIO_set_mem_eof_return(BIO *bio, int value) { return BIO_set_mem_eof_return(bio, value); }
static inline EVP_PKEY *push_EVP_EC_gen(const char *curve) { return EVP_EC_gen(curve); }

// Lists of certificates: OpenSSL's typed calls are macros over casts.
static inline STACK_OF(X509) *push_X509_list_new(void) { return sk_X509_new_null(); }
static inline int push_X509_list_append(STACK_OF(X509) *list, X509 *certificate) { return sk_X509_push(list, certificate); }
static inline X509 *push_X509_list_take_first(STACK_OF(X509) *list) { return sk_X509_shift(list); }
static inline void push_X509_list_free(STACK_OF(X509) *list) { sk_X509_pop_free(list, X509_free); }
